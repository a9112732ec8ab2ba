package report

// palette reads in dark, in light and in print, on wide screens and narrow
// ones. Text in pictures keeps its size however wide they are: only the curves
// and bars are stretched. Colours are those of Okabe and Ito, which people who
// do not see red and green alike can tell apart; lines differ in their dashes
// too, and shades in how dark they are, so that they read without colour.
const palette = `
:root{color-scheme:light dark;--paper:#fff;--ink:#1a1a1a;--soft:#5c5c5c;--line:#d9d9d9;--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#e69f00;--c5:#56b4e9;--c6:#000;--c7:#8c6d00;--seq:#0072b2;--more:#d55e00}
@media (prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#ececec;--soft:#a8a8a8;--line:#3b3f46;--c0:#56a8e0;--c1:#ff8a3d;--c2:#2cc79b;--c3:#e3a0c6;--c4:#f2b632;--c5:#8fd3ff;--c6:#fff;--c7:#d9c24f;--seq:#56b4e9;--more:#ff8a3d}}
@media print{:root{--paper:#fff;--ink:#000;--soft:#444;--line:#ccc;--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#e69f00;--c5:#56b4e9;--c6:#000;--c7:#8c6d00;--seq:#0072b2;--more:#d55e00}}
`

// chartStyle is what pictures need, on a page or alone.
const chartStyle = `svg text{font:12px system-ui,sans-serif;fill:var(--soft)}svg .grid{stroke:var(--line)}
.area{fill:var(--seq);fill-opacity:.55}.mark{stroke:var(--soft);stroke-dasharray:3 3}
.h0{fill:var(--seq);fill-opacity:.2}.h1{fill:var(--seq);fill-opacity:.45}.h2{fill:var(--seq);fill-opacity:.7}.h3{fill:var(--seq)}.h4{fill:var(--more)}
.k0{color:var(--c0);fill:var(--c0)}.k1{color:var(--c1);fill:var(--c1)}.k2{color:var(--c2);fill:var(--c2)}.k3{color:var(--c3);fill:var(--c3)}.k4{color:var(--c4);fill:var(--c4)}.k5{color:var(--c5);fill:var(--c5)}.k6{color:var(--c6);fill:var(--c6)}.k7{color:var(--c7);fill:var(--c7)}
path.curve{fill:none;stroke:currentColor;stroke-width:2;vector-effect:non-scaling-stroke;stroke-linejoin:round}
.idle{fill:none;stroke:currentColor;vector-effect:non-scaling-stroke;stroke-dasharray:2 2}.thin{fill-opacity:.45}.pale{fill-opacity:.2}.layer{fill-opacity:.75}.rest{color:var(--soft);fill:var(--soft)}.unknown{fill:var(--line);fill-opacity:.6}
path.most{fill:none;stroke:var(--soft);vector-effect:non-scaling-stroke}
`

const pageStyle = `
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1rem;font:16px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1.15rem;margin:2rem 0 .3rem}h3{font-size:1rem;margin:1.2rem 0 .2rem}
p,ul{margin:.3rem 0;max-width:48rem}.soft,ul{color:var(--soft)}ul{padding-left:1.2rem}
figure{margin:.6rem 0}figcaption{font-weight:600;font-size:.9rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.9rem}
th,td{padding:.3rem .5rem;text-align:right;border-bottom:1px solid var(--line);overflow-wrap:break-word}td.long,.many th,.many td{overflow-wrap:anywhere}th:first-child,td:first-child{text-align:left;font-weight:600}thead th{color:var(--soft);font-weight:600;vertical-align:bottom}
svg.chart{display:block;width:100%;padding:0 8px 0 52px;overflow:visible}svg.rows{padding-left:112px}svg.shares{padding-right:46px}
@media screen and (max-width:52rem){thead{display:none}table,tbody,tr,td{display:block;width:100%}tr{padding:.5rem 0;border-bottom:1px solid var(--line)}td{display:flex;justify-content:space-between;gap:1rem;border:0;padding:.1rem 0}td:first-child{font-size:1rem}td+td::before{content:attr(data-name);color:var(--soft)}svg.rows{padding-left:100px}}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.85rem;color:var(--soft);margin:.2rem 0}.key svg{width:26px;height:12px;vertical-align:-1px;margin-right:.35rem}
@media print{body{max-width:none;print-color-adjust:exact;-webkit-print-color-adjust:exact}figure,tr{break-inside:avoid}h2,h3{break-after:avoid}}
`
