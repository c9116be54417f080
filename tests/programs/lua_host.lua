-- What lua_host runs, once a thread. The tests know these lines and sizes: change them together.
local kept = {}

function leaf(bytes)
  hold(bytes) -- line 5: C memory, asked for by a Lua function
end

local function text(bytes)
  kept[#kept + 1] = string.rep("x", bytes) -- line 9: Lua's own memory
end

local function worker(bytes)
  for _ = 1, 10 do
    leaf(bytes) -- line 14
    coroutine.yield()
  end
end

local created, wrapped = coroutine.create(worker), coroutine.wrap(worker)
for _ = 1, 10 do
  assert(coroutine.resume(created, 1000))
  wrapped(200) -- line 22
end
pcall(function() hold(7) end) -- line 24: a function without a name
hold(50) -- line 25
text(100000)

-- Stacks grow and shrink while blocks are made: frames must not be read from a stack that is being moved.
local function deep(depth)
  if depth == 0 then return end
  local a, b, c, d, e, f, g, h = {}, 1, 2, 3, 4, 5, 6, 7
  deep(depth - 1)
  return a, b, c, d, e, f, g, h
end
for _ = 1, 3 do
  coroutine.wrap(deep)(3000)
  deep(1000)
  collectgarbage()
end
