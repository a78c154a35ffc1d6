-- wrk's script: POST the body in the file that the first argument names; the outcome as one line of JSON.
function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  wrk.method, wrk.body = "POST", file:read("*a")
  file:close()
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.6f, "errors": %d, "p50_ms": %.4f, "p99_ms": %.4f}\n',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.timeout + errors.status,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
