-- skynet's `preload`: what a service allocates is under a frame with its address and name, as in
-- `[:00000009 chat]`. Each message of a service is handled inside of a label, also the parts of it
-- that other messages resume.
local heapwise, core = require "heapwise", require "skynet.core"
local set_callback = core.callback
function core.callback(dispatch, ...)
  local service = core.command("REG") .. " " .. SERVICE_NAME
  return set_callback(function(...) return heapwise.label(service, dispatch, ...) end, ...)
end
