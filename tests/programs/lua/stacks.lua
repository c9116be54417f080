-- Allocates in many places, and prints the stack of each allocation as Lua's debug library sees it.
--
-- Each call of `check` allocates a long string, a table by its constructor, and a table whose size
-- is known only when it is filled. A line `stack COUNT FRAME;FRAME;…` of the output is a stack, the
-- outermost frame first, and how often `check` was called from it.
-- Arguments: rounds, the file to write.

local calls = {}
-- By coroutine: the one that resumed it.
local resumers = {}
local items = {}
for i = 1, 40 do items[i] = i end

local function name_of(info)
  if info.what == "main" then return "(main chunk)" end
  return "function:" .. info.linedefined
end

local function file_of(source, short)
  local first = source:sub(1, 1)
  if first == "@" or first == "=" then return source:sub(2) end
  return short
end

local function frames_of(coroutine_, level, frames)
  while true do
    local info
    if coroutine_ then
      info = debug.getinfo(coroutine_, level, "Sl")
    else
      info = debug.getinfo(level, "Sl")
    end
    if not info then return end
    if info.what ~= "C" then
      local place = file_of(info.source, info.short_src) .. ":" .. info.currentline
      frames[#frames + 1] = name_of(info) .. " (" .. place .. ")"
    end
    level = level + 1
  end
end

function check()
  local frames = {}
  frames_of(nil, 3, frames)
  local resumer = resumers[coroutine.running()]
  while resumer do
    frames_of(resumer, 0, frames)
    resumer = resumers[resumer]
  end
  for i = 1, #frames // 2 do
    frames[i], frames[#frames + 1 - i] = frames[#frames + 1 - i], frames[i]
  end
  local key = table.concat(frames, ";")
  calls[key] = (calls[key] or 0) + 1
  -- The stack has room for the calls below from here on.
  select("#", string.rep("x", 4096), table.unpack(items))
  local block = string.rep("x", 4096) -- the line of the block
  local object = { 1, 2, 3, 4, 5, 6, 7, 8, name = 1, value = 2, other = 3 } -- the line of the object
  local list = { table.unpack(items, 1, 30) } -- the line of the list
  return 1, block, object, list
end

local function resume(co, ...)
  resumers[co] = coroutine.running()
  return coroutine.resume(co, ...)
end

local function recursive(depth)
  if depth == 0 then
    return (check())
  end
  local result = recursive(depth - 1)
  return result
end

local function leaf()
  local result = check()
  return result
end

local function same_function_from_other_lines()
  leaf() leaf()
  leaf()
  leaf()
end

local function same_calls_with_other_lines(depth, path)
  local result
  if depth == 0 then
    result = check()
  elseif path % 2 == 0 then
    result = same_calls_with_other_lines(depth - 1, path // 2)
  else
    result = same_calls_with_other_lines(depth - 1, path // 2)
  end
  return result
end

local function tail(depth)
  if depth == 0 then return check() end
  return tail(depth - 1)
end

local function variable(...)
  local count = select("#", ...)
  check()
  return count
end

local meta = {
  __index = function() return (check()) end,
  __newindex = function() check() end,
  __call = function() check() end,
  __add = function() return (check()) end,
  __concat = function() check() return "text" end,
  __eq = function() return check() == 1 end,
  __lt = function() return check() == 1 end,
  __len = function() return (check()) end,
  __tostring = function() check() return "text" end,
}

local function metamethods()
  local one, two = setmetatable({}, meta), setmetatable({}, meta)
  local result = one.missing
  one.missing = 1
  one()
  result = one + two
  result = one .. "x"
  result = one == two
  result = one < two
  result = #one
  result = tostring(one)
  return result
end

local function callbacks()
  table.sort({ 3, 1, 2 }, function(a, b) check() return a < b end)
  string.gsub("ab", ".", function() check() end)
  for _ in function(_, i) check() return not i or nil end do end
end

local function errors()
  pcall(function() check() error("first") end)
  xpcall(function() error("second") end, function(message)
    check()
    return message
  end)
  pcall(pcall, leaf)
  check()
end

local function finalizers()
  setmetatable({}, { __gc = function() check() end })
  collectgarbage()
end

local function producer()
  while true do
    check()
    coroutine.yield()
    leaf()
    pcall(function()
      check()
      coroutine.yield()
      check()
    end)
  end
end

local function resume_from_depth(co, depth)
  if depth == 0 then
    assert(resume(co))
    return
  end
  resume_from_depth(co, depth - 1)
  local _ = depth
end

local function nested(depth)
  check()
  if depth > 0 then
    local inner = coroutine.create(nested)
    repeat assert(resume(inner, depth - 1)) until coroutine.status(inner) == "dead"
  end
  coroutine.yield()
  check()
end

local function coroutines()
  local one, two = coroutine.create(producer), coroutine.create(producer)
  for depth = 0, 3 do
    resume_from_depth(one, depth)
    resume_from_depth(two, 3 - depth)
  end
  local failing = coroutine.create(function() check() error("failed") end)
  assert(not resume(failing))
  local outer = coroutine.create(nested)
  repeat assert(resume(outer, 6)) until coroutine.status(outer) == "dead"
  check()
end

local function chunks_at_reused_addresses(rounds)
  for number = 1, rounds do
    local lines = ("\n"):rep(number % 7)
    local source = lines .. "local function made()\n\n  check()\nend\nmade()\n"
    load(source, number % 2 == 0 and "=made" .. number % 3 or nil)()
    if number % 5 == 0 then collectgarbage() end
  end
end

local function deep(depth)
  if depth == 0 then return check() end
  local a, b, c, d = deep(depth - 1)
  return a, b, c, d
end

local function stacks_that_grow()
  local co = coroutine.create(function()
    check()
    deep(400)
    check()
  end)
  assert(resume(co))
end

local function main(rounds)
  for _ = 1, rounds do
    for _, depth in ipairs { 0, 5, 60 } do recursive(depth) end
    same_function_from_other_lines()
    for path = 0, 31 do same_calls_with_other_lines(5, path) end
    tail(3)
    variable(1, 2, 3)
    metamethods()
    callbacks()
    errors()
    finalizers()
    coroutines()
    stacks_that_grow()
    chunks_at_reused_addresses(10)
    collectgarbage()
  end
end

-- Otherwise Lua allocates for itself in any line, and for long strings once.
collectgarbage("stop")
string.rep("x", 4096)
main(tonumber(arg[1]))
local out = assert(io.open(arg[2], "w"))
for stack, count in pairs(calls) do out:write("stack ", count, " ", stack, "\n") end
out:close()
os.exit(0)
