#include "analysis/reports/driver_objects.h"

#include <string>

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kMany = 1000;  // frameworks keep dozens for use again

}  // namespace

std::vector<DriverObjects> CountDriverObjects(const Snapshot& snapshot, const Steps& steps) {
  std::vector<DriverObjects> result;
  for (const char* kind : {"events", "streams"}) {
    const auto created = snapshot.counters.find(std::string(kind) + "_created");
    const auto destroyed = snapshot.counters.find(std::string(kind) + "_destroyed");
    if (created == snapshot.counters.end() || destroyed == snapshot.counters.end()) continue;
    DriverObjects objects;
    objects.kind = kind;
    objects.created = created->second;
    objects.destroyed = destroyed->second;
    objects.piling_up = objects.left() >= kMany && 2 * objects.left() > objects.created;
    if (steps.count() != 0) objects.left_per_step = static_cast<double>(objects.left()) / steps.count();
    result.push_back(objects);
  }
  return result;
}

}  // namespace cuheap::analysis
