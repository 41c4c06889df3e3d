// Memory of the recorder's own, straight from mmap: the program's malloc may be instrumented, may be the thing that
// calls us, and must not see us. Memory from MapMemory is zero and never moves.
#ifndef CUHEAP_INTERPOSE_RECORDER_OWN_MEMORY_H_
#define CUHEAP_INTERPOSE_RECORDER_OWN_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <type_traits>

namespace cuheap::recorder {

// Anonymous zeroed memory of at least `bytes`, or nullptr. errno is kept.
void* MapMemory(std::size_t bytes);
void UnmapMemory(void* memory, std::size_t bytes);

// Objects that live until the process ends, carved from large mappings. Threads: any.
class Arena {
 public:
  constexpr Arena() = default;
  // Zeroed, aligned to 64 bytes; nullptr when the system has no memory.
  void* Allocate(std::size_t bytes);

 private:
  std::mutex mutex_;
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
};

// An array that grows by moving, for trivially copyable elements. Not locked by itself.
template <typename T>
class GrowingArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  constexpr GrowingArray() = default;
  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }
  // False, and unchanged, when there is no memory.
  bool PushBack(const T& value) {
    if (size_ == capacity_ && !Grow()) return false;
    data_[size_++] = value;
    return true;
  }
  // Makes room so that the next `count` PushBacks succeed.
  bool Reserve(std::size_t count) {
    while (capacity_ - size_ < count) {
      if (!Grow()) return false;
    }
    return true;
  }
  T PopBack() { return data_[--size_]; }

 private:
  // NOLINTNEXTLINE(bugprone-sizeof-expression): elements may be pointers.
  static constexpr std::size_t kElementBytes = sizeof(T);

  bool Grow() {
    const std::size_t capacity = capacity_ == 0 ? 4096 / kElementBytes + 1 : capacity_ * 2;
    T* data = static_cast<T*>(MapMemory(capacity * kElementBytes));
    if (data == nullptr) return false;
    for (std::size_t i = 0; i < size_; ++i) data[i] = data_[i];
    if (data_ != nullptr) UnmapMemory(static_cast<void*>(data_), capacity_ * kElementBytes);
    data_ = data;
    capacity_ = capacity;
    return true;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace cuheap::recorder

#endif  // CUHEAP_INTERPOSE_RECORDER_OWN_MEMORY_H_
