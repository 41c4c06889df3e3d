#include "tests/interpose/stacks/call_shapes.h"

#include <alloca.h>
#include <stdlib.h>

#include <cstring>
#include <mutex>

namespace cuheap::testing {
namespace {

struct Walk {
  unsigned depth;
  std::uint64_t seed;
  const Leaf& leaf;
};

// Keeps a buffer and what is in it alive.
void Use(void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

void Next(const Walk& walk);

[[gnu::noinline]] int Plain(const Walk& walk) {
  Next(walk);
  return 1;
}

[[gnu::noinline]] int Big(const Walk& walk) {
  char buffer[3000];
  std::memset(buffer, 1, sizeof(buffer));
  Use(buffer);
  Next(walk);
  return buffer[walk.depth % 100];
}

[[gnu::noinline]] int Variable(const Walk& walk) {
  char* buffer = static_cast<char*>(alloca(16 + walk.seed % 500));
  buffer[0] = 1;
  Use(buffer);
  Next(walk);
  return buffer[0];
}

[[gnu::noinline]] int Aligned(const Walk& walk) {
  alignas(64) char buffer[128] = {1};
  Use(buffer);
  Next(walk);
  return buffer[1];
}

[[gnu::noinline]] int AlignedVariable(const Walk& walk) {
  alignas(128) char buffer[128] = {1};
  char* more = static_cast<char*>(alloca(16 + walk.seed % 300));
  Use(buffer);
  Use(more);
  Next(walk);
  return buffer[1] + more[0] * 0;
}

[[gnu::noinline]] std::uint64_t ManyRegisters(const Walk& walk, std::uint64_t a, std::uint64_t b, std::uint64_t c,
                                              std::uint64_t d, std::uint64_t e, std::uint64_t f, std::uint64_t g) {
  const std::uint64_t x = a * b, y = c * d, z = e * f;
  asm volatile("" : : : "rbx", "r12", "r13", "r14", "r15");
  Next(walk);
  return x ^ y ^ z ^ g ^ a ^ c ^ e;
}

const Walk* g_sorting = nullptr;
int Compare(const void*, const void*) {
  if (const Walk* walk = g_sorting; walk != nullptr) {
    g_sorting = nullptr;
    Next(*walk);
  }
  return 0;
}
[[gnu::noinline]] int ThroughLibc(const Walk& walk) {
  int items[2] = {2, 1};
  g_sorting = &walk;
  qsort(items, 2, sizeof(int), Compare);
  return items[0];
}

[[gnu::noinline]] int ThroughCallOnce(const Walk& walk) {
  std::once_flag once;
  std::call_once(once, [&] { Next(walk); });
  return 3;
}

struct Base {
  virtual ~Base() = default;
  virtual int Call(const Walk& walk) = 0;
};
struct Derived : Base {
  [[gnu::noinline]] int Call(const Walk& walk) override {
    Next(walk);
    return 4;
  }
};
[[gnu::noinline]] int Virtual(const Walk& walk) {
  Derived derived;
  Base* base = &derived;
  Use(base);
  return base->Call(walk) + 1;
}

[[gnu::noinline]] int InCatchBlock(const Walk& walk) {
  try {
    throw walk.depth;
  } catch (unsigned depth) {
    Next(walk);
    return static_cast<int>(depth);
  }
}

[[gnu::noinline]] void Next(const Walk& walk) {
  if (walk.depth == 0) {
    walk.leaf();
    return;
  }
  const Walk inner{walk.depth - 1, walk.seed * 6364136223846793005u + 1442695040888963407u, walk.leaf};
  int result = 0;
  switch ((inner.seed >> 33) % 10) {
    case 0:
      result = Plain(inner);
      break;
    case 1:
      result = Big(inner);
      break;
    case 2:
      result = Variable(inner);
      break;
    case 3:
      result = Aligned(inner);
      break;
    case 4:
      result = AlignedVariable(inner);
      break;
    case 5:
      result = static_cast<int>(ManyRegisters(inner, inner.seed, 2, 3, 4, inner.depth, 6, 7));
      break;
    case 6:
      result = ThroughLibc(inner);
      break;
    case 7:
      result = ThroughCallOnce(inner);
      break;
    case 8:
      result = Virtual(inner);
      break;
    default:
      result = InCatchBlock(inner);
      break;
  }
  asm volatile("" : : "r"(result));
}

}  // namespace

void CallThroughShapes(unsigned depth, std::uint64_t seed, const Leaf& leaf) { Next(Walk{depth, seed, leaf}); }

}  // namespace cuheap::testing
