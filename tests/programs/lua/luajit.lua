-- What a test runs with LuaJIT. It knows functions, marked lines and sizes: change them together.
collectgarbage("stop")
local kept = {}
local function run(coroutine_function) -- line 4
  local resume = coroutine.wrap(coroutine_function)
  for i = 1, 20 do resume(i) end
end

run(function(i) -- line 9
  while true do
    kept[#kept + 1] = string.rep("c" .. i, 500000) -- the line of the coroutine
    i = coroutine.yield()
  end
end)
for i = 1, 20 do
  kept[#kept + 1] = string.rep("m" .. i, 500000) -- the line of the chunk
end
local pid = io.open("/proc/self/stat"):read("*n")
io.write("ready ", pid, "\n")
io.flush()
io.read()
