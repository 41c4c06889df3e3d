// Handles given to programs, and the objects behind them.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace simcuda {

// Maps opaque handle values to objects. A handle is never a pointer: a stale one is found out instead of being
// followed.
//
// kRecycled hands out the value that was given back last, as the vendor's heap-allocated streams and events do: code
// that takes an equal handle for an equal stream must be seen to fail. kUnique never repeats a value.
enum class HandleReuse { kRecycled, kUnique };

template <typename Handle, typename Object>
class HandleTable {
 public:
  HandleTable(uintptr_t first, HandleReuse reuse) : next_(first), reuse_(reuse) {}

  Handle Add(std::shared_ptr<Object> object) {
    uintptr_t value = next_;
    if (reuse_ == HandleReuse::kRecycled && !free_.empty()) {
      value = free_.back();
      free_.pop_back();
    } else {
      next_ += 64;
    }
    objects_.emplace(value, std::move(object));
    return ToHandle(value);
  }

  // Returns: null for a value that was never given out or whose object is gone.
  std::shared_ptr<Object> Find(Handle handle) const {
    const auto found = objects_.find(ToValue(handle));
    return found == objects_.end() ? nullptr : found->second;
  }

  void Remove(Handle handle) {
    if (objects_.erase(ToValue(handle)) == 1 && reuse_ == HandleReuse::kRecycled) free_.push_back(ToValue(handle));
  }

  // Removes every object for which `gone` holds.
  template <typename Predicate>
  void RemoveIf(Predicate gone) {
    std::vector<Handle> handles;
    for (const auto& [value, object] : objects_) {
      if (gone(*object)) handles.push_back(ToHandle(value));
    }
    for (Handle handle : handles) Remove(handle);
  }

  const std::unordered_map<uintptr_t, std::shared_ptr<Object>>& All() const { return objects_; }
  size_t size() const { return objects_.size(); }

 private:
  static Handle ToHandle(uintptr_t value) { return (Handle)value; }      // NOLINT: pointers and integers alike
  static uintptr_t ToValue(Handle handle) { return (uintptr_t)handle; }  // NOLINT

  uintptr_t next_;
  HandleReuse reuse_;
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> objects_;
  std::vector<uintptr_t> free_;
};

}  // namespace simcuda
