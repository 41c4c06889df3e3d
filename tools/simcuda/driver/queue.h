// Making pieces of work.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "tools/simcuda/driver/stream.h"

namespace simcuda {

// what: a literal, for the log. run: may be empty for a marker.
inline std::shared_ptr<Work> NewWork(const char* what, std::function<Outcome()> run) {
  auto work = std::make_shared<Work>();
  work->what = what;
  work->run = std::move(run);
  return work;
}

}  // namespace simcuda
