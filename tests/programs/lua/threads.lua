-- What lua_threads runs, once a thread. The tests know these lines and sizes: change them together.
collectgarbage("stop")
kept = {}
for i = 1, 1000 do kept[i] = false end

local function hold(bytes)
  kept[#kept + 1] = string.rep("x", bytes) -- line 7
end

local function worker(bytes)
  for i = 1, 10 do
    kept[i] = string.rep("y", bytes) -- line 12
    coroutine.yield()
  end
end

local outer = coroutine.wrap(function()
  local inner = coroutine.wrap(worker)
  for _ = 1, 10 do
    inner(50000) -- line 20
    coroutine.yield()
  end
end)
for _ = 1, 10 do
  outer() -- line 25
end
hold(100000) -- line 27
