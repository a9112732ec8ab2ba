--[[
cli_filter.lua: asks Slurm for the GPU memory of packed jobs, in shards, from
sbatch, srun and salloc.

It does what job_submit.lua does, and reads like it; see there for the shards
themselves. Use it where slurmctld's plugins cannot be changed: a user may get
round it, and each submitting host needs it. Put it beside slurm.conf there, set
`site` below, and:

    slurm.conf    CliFilterPlugins=lua

A site that has a cli_filter.lua already takes all of this but the entry points
at the end, and calls ask_for_shards(options) from its own slurm_cli_pre_submit.
--]]

local site = {
    -- GPU memory that one shard stands for.
    shard = "1GiB",
    -- GPU memory of the largest GPU that has shards. A job that states more
    -- gets such a GPU whole.
    gpu = "80GiB",
    -- What a job without --gimbal-memory counts for: a size, or "whole" for
    -- `gpu`. As [memory] default in gimbald.toml.
    default = "whole",
    -- Partitions whose nodes have shards, such as { "gpu", "debug" }; empty:
    -- all have. A job that may run in any other is left as it is, and so is one
    -- that names none.
    partitions = {},
}

-- The same in job_submit.lua and cli_filter.lua: begin

-- Each is one file that a site copies to a host and changes. What they share
-- stands in both, since a file for both could be missing, or be of another
-- version, on one of the hosts; a test keeps them the same.

-- MiB of a size with its unit, as --gimbal-memory takes it, such as "16GiB",
-- "500M" or "1.5T": powers of 1024, rounded up. nil for anything else.
local function mebibytes(text)
    local number, unit = string.match(text or "", "^(%d+%.?%d*)(%a+)$")
    local power = { k = -1, m = 0, g = 1, t = 2 }
    unit = string.lower(unit or "")
    local shift = power[string.sub(unit, 1, 1)]
    local rest = string.sub(unit, 2)
    if not shift or (rest ~= "" and rest ~= "b" and rest ~= "ib") then
        return nil
    end
    if #number > 15 or string.sub(number, -1) == "." then
        return nil
    end
    local size = math.ceil(tonumber(number) * 1024 ^ shift)
    return size > 0 and size or nil
end

-- Shards for a job that stated this memory (nil: none); nil and a reason where
-- that cannot be told.
local function shards_for(memory)
    local shard, gpu = mebibytes(site.shard), mebibytes(site.gpu)
    if not shard or not gpu or gpu < shard then
        return nil, "site.shard or site.gpu is not right"
    end
    local wanted = memory or site.default
    local size = wanted == "whole" and not memory and gpu or mebibytes(wanted)
    if not size then
        return nil, memory and "--gimbal-memory is no size" or "site.default is not right"
    end
    return math.min(math.ceil(size / shard), math.floor(gpu / shard))
end

-- Whether a value of --gimbal-pack asks for packing; nil means not given.
local function asks_to_pack(pack)
    local no = { off = true, no = true, ["0"] = true, ["false"] = true }
    return pack ~= nil and not no[pack]
end

-- Whether a job's partitions ("a,b", or nil for the default one) all have
-- shards.
local function has_shards(names, default)
    if #site.partitions == 0 then
        return true
    end
    local listed = {}
    for _, name in ipairs(site.partitions) do
        listed[name] = true
    end
    for name in string.gmatch(names or default or "?", "[^,]+") do
        if not listed[name] then
            return false
        end
    end
    return true
end

-- The same in job_submit.lua and cli_filter.lua: end

-- The value of one of Gimbal's options, nil when the job was not given it.
local function option(options, name)
    local plugin = (options["spank"] or {})["gimbal"] or {}
    return plugin["gimbal-" .. name]
end

-- Whether this is an srun inside a job: what the job has is settled already.
local function is_step(options)
    return options["type"] == "srun" and tonumber(options["jobid"]) ~= nil
end

-- Whether the job asks for gres itself.
local function asks_for_gres(options)
    for _, name in ipairs { "gres", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task" } do
        if options[name] then
            return true
        end
    end
    return string.find(options["tres-per-task"] or "", "gres", 1, true) ~= nil
end

-- Changes the job's request where it should; returns what to say to its user,
-- or nil.
local function request(options)
    if is_step(options) or not asks_to_pack(option(options, "pack")) then
        return nil
    end
    if asks_for_gres(options) then
        return nil
    end
    if not has_shards(options["partition"], nil) then
        return nil
    end
    local shards, why = shards_for(option(options, "memory"))
    if not shards then
        return why .. ", the job is submitted as it is"
    end
    options["gres"] = string.format("shard:%d", shards)
    return nil
end

function ask_for_shards(options)
    local fine, said = pcall(request, options)
    if not fine or said then
        slurm.log_error("gimbal: %s", tostring(said))
    end
end

-- Slurm's entry points

function slurm_cli_setup_defaults(options, early)
    return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
    ask_for_shards(options)
    return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
    return slurm.SUCCESS
end
