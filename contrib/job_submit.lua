--[[
job_submit.lua: asks Slurm for the GPU memory of packed jobs, in shards.

A job with --gimbal-pack states with --gimbal-memory how much GPU memory it
takes on a GPU. Here that becomes a request for gres/shard, one shard being a
fixed amount of memory, so that Slurm itself never places more jobs on a GPU
than fit into its memory.

Put it beside slurm.conf on the host of slurmctld, set `site` below, and:

    slurm.conf    GresTypes=gpu,shard
                  JobSubmitPlugins=lua
                  NodeName=... Gres=gpu:2,shard:160       (two GPUs of 80 GiB)
    gres.conf     Name=gpu   File=/dev/nvidia[0-1]
                  Name=shard Count=160

A site that has a job_submit.lua already takes all of this but the entry points
at the end, and calls ask_for_shards(job_desc) from its own slurm_job_submit.
Where slurmctld's plugins cannot be changed, cli_filter.lua does the same in
sbatch, srun and salloc; one of the two is enough.

What it leaves as it is:
  - a job without --gimbal-pack, or with --gimbal-pack=off
  - a job that asks for gres or GPUs itself; one that needs several GPUs on a
    node has to, as Slurm gives a job the shards of one GPU only
  - a job whose request it does not understand: a line in slurmctld's log says so
It never refuses a job. Slurm refuses one that no node of its partition could
ever run: keep `gpu` and `partitions` below true.
--]]

local site = {
    -- GPU memory that one shard stands for. A GPU has as many shards as this
    -- fits into its memory.
    shard = "1GiB",
    -- GPU memory of the largest GPU that has shards. A job that states more
    -- gets such a GPU whole.
    gpu = "80GiB",
    -- What a job without --gimbal-memory counts for: a size, or "whole" for
    -- `gpu`. As [memory] default in gimbald.toml.
    default = "whole",
    -- Partitions whose nodes have shards, such as { "gpu", "debug" }; empty:
    -- all have. A job that may run in any other is left as it is.
    partitions = {},
    -- What `gimbal learnt --classes` wrote of the nodes, a file on this host:
    -- then a heavy job that was seen before gets a GPU for itself, and of light
    -- and middling ones four and two share a GPU at most. "" for none.
    classes = "",
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
local function option(job_desc, name)
    local prefix = "_SLURM_SPANK_OPTION_gimbal_gimbal_" .. name .. "="
    for _, line in pairs(job_desc.spank_job_env or {}) do
        if string.sub(line, 1, #prefix) == prefix then
            return string.sub(line, #prefix + 1)
        end
    end
    return nil
end

local function default_partition(part_list)
    for name, partition in pairs(part_list or {}) do
        if partition.flag_default == 1 then
            return name
        end
    end
    return nil
end

-- A job's name as `gimbal learnt --classes` writes it.
local function plain(name)
    return (string.gsub(name, "[^%w._-]", function(c)
        return string.format("%%%02X", string.byte(c))
    end))
end

-- The class that nodes have learnt of a user's jobs of this name, nil where
-- that is not known.
local function class_of(uid, name)
    local file = site.classes ~= "" and name and io.open(site.classes)
    if not file then
        return nil
    end
    local ends, found = " " .. plain(name), nil
    local starts = string.format("%d ", uid)
    for line in file:lines() do
        if string.sub(line, 1, #starts) == starts and string.sub(line, -#ends) == ends then
            found = string.sub(line, #starts + 1, -#ends - 1)
        end
    end
    file:close()
    return found
end

-- How many jobs of a class share a GPU at most.
local sharing = { heavy = 1, medium = 2, light = 4 }

-- The shards of a job by its class, where those for its memory are fewer.
local function sized(shards, class)
    if not sharing[class] then
        return shards
    end
    local all = math.floor(mebibytes(site.gpu) / mebibytes(site.shard))
    return math.max(shards, math.floor(all / sharing[class]))
end

-- Changes the job's request where it should; returns what to log, or nil.
local function request(job_desc, part_list)
    if not asks_to_pack(option(job_desc, "pack")) then
        return nil
    end
    for _, field in ipairs { "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task" } do
        -- Newer versions state there, in the same field, what -c asks for.
        if string.find(job_desc[field] or "", "gres", 1, true) then
            return "asks for gres itself, left as it is"
        end
    end
    if not has_shards(job_desc.partition, default_partition(part_list)) then
        return "may run in a partition without shards, left as it is"
    end
    local shards, why = shards_for(option(job_desc, "memory"))
    if not shards then
        return why .. ", left as it is"
    end
    -- Slurm adds what its version puts before the name: gres: or gres/.
    local class = class_of(job_desc.user_id, job_desc.name)
    job_desc.gres = string.format("shard:%d", sized(shards, class))
    return string.format("gets %s%s", job_desc.tres_per_node, class and ", known as " .. class or "")
end

function ask_for_shards(job_desc, part_list)
    local fine, said = pcall(request, job_desc, part_list)
    if not fine then
        slurm.log_error("gimbal: job of user %d left as it is: %s", job_desc.user_id, tostring(said))
    elseif said then
        slurm.log_info("gimbal: packed job of user %d %s", job_desc.user_id, said)
    end
end

-- Slurm's entry points

function slurm_job_submit(job_desc, part_list, submit_uid)
    ask_for_shards(job_desc, part_list)
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end
