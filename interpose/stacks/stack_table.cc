#include "interpose/stacks/stack_table.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace cuheap::stacks {
namespace {

using journal::Counter;
using recorder::StackId;

constexpr std::uint64_t kLeastExtentBytes = 64 * 1024;
constexpr std::uint64_t kLargestExtentBytes = 4 * 1024 * 1024;
// Where stacks stop being kept: a program with this many different ones (about three million) makes them at random.
constexpr std::uint64_t kMaxStackBytes = 512ull * 1024 * 1024;
constexpr std::uint64_t kHeaderWords = sizeof(journal::StackHeader) / 8;

std::uint64_t HashWords(const std::uint64_t* words, unsigned count, std::uint16_t flags) {
  // Two lanes, so that one product does not wait for the other; the upper half of each comes back down by the fold.
  __extension__ using Wide = unsigned __int128;
  const auto step = [](std::uint64_t hash, std::uint64_t word, std::uint64_t factor) {
    const Wide product = static_cast<Wide>(hash ^ word) * factor;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  std::uint64_t even = 0x9E3779B97F4A7C15 ^ flags, odd = 0xBF58476D1CE4E5B9 + count;
  unsigned i = 0;
  for (; i + 1 < count; i += 2) {
    even = step(even, words[i], 0xFF51AFD7ED558CCD);
    odd = step(odd, words[i + 1], 0xC4CEB9FE1A85EC53);
  }
  if (i < count) even = step(even, words[i], 0xFF51AFD7ED558CCD);
  const std::uint64_t hash = step(even, odd, 0x94D049BB133111EB);
  return hash ^ (hash >> 32);
}

}  // namespace

bool StackTable::Same(const Known& known, std::uint64_t hash, const StackKey& key) {
  return known.hash == hash && known.depth == key.depth && known.native_depth == key.native_depth &&
         known.flags == key.flags && std::memcmp(known.words, key.words, key.depth * sizeof(*key.words)) == 0;
}

StackTable::Known* StackTable::FindKnown(const KnownMap* map, std::uint64_t hash, const StackKey& key) {
  if (map == nullptr) return nullptr;
  for (std::uint64_t i = hash & (map->capacity - 1);; i = (i + 1) & (map->capacity - 1)) {
    Known* known = map->entries[i].load(std::memory_order_acquire);
    if (known == nullptr || Same(*known, hash, key)) return known;
  }
}

bool StackTable::Find(const StackKey& key, std::uint32_t generation, InternedStack& stack) const {
  const std::uint64_t hash = HashWords(key.words, key.depth, key.flags);
  const Known* known = FindKnown(known_.load(std::memory_order_acquire), hash, key);
  if (known == nullptr || known->generation.load(std::memory_order_acquire) != generation) return false;
  stack.id = known->id;
  stack.caller_is_pytorch = known->caller_is_pytorch;
  return true;
}

InternedStack StackTable::Add(const StackKey& key, const PythonPlaces& places, std::uint32_t generation) {
  unsigned count = 0, python = key.native_depth;
  InternedStack stack;
  std::lock_guard<std::mutex> lock(mutex_);
  std::uint64_t* const words = merged_;
  const std::size_t modules_before = modules_.size();
  bool above_runtime = false;
  for (unsigned i = 0; i < key.native_depth; ++i) {
    const ResolvedFrame frame = modules_.Resolve(key.words[i], *recorder_, generation);
    words[count++] = frame.word;
    if (!above_runtime && frame.role != ModuleRole::kRuntime) {
      above_runtime = true;
      stack.caller_is_pytorch = frame.role == ModuleRole::kPyTorch;
    }
    while (python < key.depth && places.after[python - key.native_depth] == i + 1) words[count++] = key.words[python++];
  }
  while (python < key.depth) words[count++] = key.words[python++];
  stack.new_modules = modules_.size() != modules_before;
  const auto flags =
      static_cast<std::uint16_t>(key.flags | (places.unplaced ? journal::kStackPythonUnplaced : std::uint16_t{0}));
  stack.id = FindOrWrite(words, count, flags);
  if (stack.id == 0) {
    recorder_->Count(Counter::kStacksFailed);
    recorder_->Note(journal::NoteCode::kNoSpace, "stacks: some allocations have none", 0, 0);
    return stack;
  }
  Remember(HashWords(key.words, key.depth, key.flags), stack, key, generation);
  return stack;
}

bool StackTable::CallerIsPyTorch(const std::uint64_t* addresses, unsigned depth, std::uint32_t generation) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (unsigned i = 0; i < depth; ++i) {
    const ModuleRole role = modules_.Resolve(addresses[i], *recorder_, generation).role;
    if (role != ModuleRole::kRuntime) return role == ModuleRole::kPyTorch;
  }
  return false;
}

StackId StackTable::FindOrWrite(const std::uint64_t* words, unsigned depth, std::uint16_t flags) {
  if ((written_size_ + 1) * 4 > written_capacity_ * 3 && !GrowWritten()) return 0;
  const std::uint64_t hash = HashWords(words, depth, flags);
  std::uint64_t i = hash & (written_capacity_ - 1);
  for (; written_[i].header != nullptr; i = (i + 1) & (written_capacity_ - 1)) {
    const journal::StackHeader* header = written_[i].header;
    if (written_[i].hash == hash && header->depth == depth && header->flags == flags &&
        std::memcmp(header + 1, words, depth * sizeof(*words)) == 0) {
      return written_[i].id;
    }
  }
  const journal::StackHeader* header = nullptr;
  const StackId id = Write(hash, words, depth, flags, header);
  if (id == 0) return 0;
  written_[i] = Written{hash, header, id};
  ++written_size_;
  recorder_->Count(Counter::kStacksInterned);
  return id;
}

StackId StackTable::Write(std::uint64_t hash, const std::uint64_t* words, unsigned depth, std::uint16_t flags,
                          const journal::StackHeader*& out) {
  const std::uint64_t needed = kHeaderWords + depth;
  if (static_cast<std::uint64_t>(end_word_ - next_word_) < needed && !AddExtent(needed)) return 0;
  auto* header = reinterpret_cast<journal::StackHeader*>(next_word_);
  header->depth = static_cast<std::uint16_t>(depth);
  header->flags = flags;
  header->hash = hash;
  std::memcpy(next_word_ + kHeaderWords, words, depth * sizeof(*words));
  header->commit.store(journal::kStackCommitted, std::memory_order_release);
  const auto id = static_cast<StackId>(next_id_);
  next_word_ += needed;
  next_id_ += needed;
  out = header;
  return id;
}

bool StackTable::AddExtent(std::uint64_t words_needed) {
  static_assert(kLeastExtentBytes / 8 > kHeaderWords + kMaxWords + 1);
  if (words_needed > kLeastExtentBytes / 8 || words_in_extents_ * 8 >= kMaxStackBytes) return false;
  const auto added = recorder_->file.AddExtent(journal::ExtentKind::kStacks, 0, next_extent_bytes_, kLeastExtentBytes);
  if (added.memory == nullptr) return false;
  next_extent_bytes_ = std::min(next_extent_bytes_ * 2, kLargestExtentBytes);
  next_word_ = static_cast<std::uint64_t*>(added.memory);
  end_word_ = next_word_ + added.bytes / 8;
  next_id_ = words_in_extents_;
  words_in_extents_ += added.bytes / 8;
  if (next_id_ == 0) {  // id 0 means none
    ++next_word_;
    ++next_id_;
  }
  return true;
}

void StackTable::Remember(std::uint64_t hash, const InternedStack& stack, const StackKey& key,
                          std::uint32_t generation) {
  KnownMap* map = known_.load(std::memory_order_relaxed);
  if (Known* known = FindKnown(map, hash, key); known != nullptr && known->id == stack.id) {
    known->generation.store(generation, std::memory_order_release);  // it still means the same
    return;
  }
  if (map == nullptr || (map->size + 1) * 2 > map->capacity) {
    map = GrowKnown(map);
    if (map == nullptr) return;
  }
  const std::size_t bytes = sizeof(Known) + key.depth * sizeof(std::uint64_t);
  void* memory = recorder_->arena.Allocate(bytes);
  if (memory == nullptr) return;
  auto* known = new (memory) Known{hash,
                                   stack.id,
                                   static_cast<std::uint16_t>(key.native_depth),
                                   static_cast<std::uint16_t>(key.depth),
                                   key.flags,
                                   stack.caller_is_pytorch,
                                   {generation},
                                   {0}};
  std::memcpy(known->words, key.words, key.depth * sizeof(*key.words));
  std::uint64_t i = hash & (map->capacity - 1);
  for (Known* other; (other = map->entries[i].load(std::memory_order_relaxed)) != nullptr;
       i = (i + 1) & (map->capacity - 1)) {
    // The same key, which means something else now: the new one takes its place.
    if (Same(*other, hash, key)) {
      map->entries[i].store(known, std::memory_order_release);
      return;
    }
  }
  map->entries[i].store(known, std::memory_order_release);
  ++map->size;
}

StackTable::KnownMap* StackTable::GrowKnown(KnownMap* map) {
  const std::uint64_t capacity = map == nullptr ? 1024 : map->capacity * 2;
  auto* bigger = static_cast<KnownMap*>(recorder::MapMemory(sizeof(KnownMap) + capacity * sizeof(Known*)));
  if (bigger == nullptr) return map == nullptr || map->size + 1 == map->capacity ? nullptr : map;
  bigger->capacity = capacity;
  for (std::uint64_t i = 0; map != nullptr && i < map->capacity; ++i) {
    Known* known = map->entries[i].load(std::memory_order_relaxed);
    if (known == nullptr) continue;
    std::uint64_t to = known->hash & (capacity - 1);
    while (bigger->entries[to].load(std::memory_order_relaxed) != nullptr) to = (to + 1) & (capacity - 1);
    bigger->entries[to].store(known, std::memory_order_relaxed);
    ++bigger->size;
  }
  known_.store(bigger, std::memory_order_release);
  return bigger;
}

bool StackTable::GrowWritten() {
  const std::uint64_t capacity = written_capacity_ == 0 ? 1024 : written_capacity_ * 2;
  auto* bigger = static_cast<Written*>(recorder::MapMemory(capacity * sizeof(Written)));
  if (bigger == nullptr) return written_size_ + 1 < written_capacity_;
  for (std::uint64_t i = 0; i < written_capacity_; ++i) {
    if (written_[i].header == nullptr) continue;
    std::uint64_t to = written_[i].hash & (capacity - 1);
    while (bigger[to].header != nullptr) to = (to + 1) & (capacity - 1);
    bigger[to] = written_[i];
  }
  if (written_ != nullptr) recorder::UnmapMemory(written_, written_capacity_ * sizeof(Written));
  written_ = bigger;
  written_capacity_ = capacity;
  return true;
}

}  // namespace cuheap::stacks
