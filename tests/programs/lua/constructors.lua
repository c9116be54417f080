-- Tables that are made in lines without a call before them. Each marked line makes one table of four
-- values in each round; Lua gives a constructor the line of the word before its brace.
-- Argument: rounds.
local kept

local function constructors(rounds)
  local outer = {}
  for i = 1, rounds do
    outer.first = { i, i, i, i } -- one table
    outer.second = { i, i, i, i } -- one table
    if i % 2 == 0 then
      outer.third = { i, i, i, i } -- half a table
    else
      outer.third = { i, i, i, i } -- half a table
    end
    kept = {
      first = { i, i, i, i }, -- one table
      0,
      second = { i, i, i, i }, -- one table
    }
    local a = { i, i, i, i } -- one table
    local b = { i, i, i, i } -- one table
    outer.a, outer.b = a, b
  end
  return outer
end

collectgarbage("stop")
constructors(tonumber(arg[1]))
os.exit(0)
