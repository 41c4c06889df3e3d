// Random legal CUDA programs, as data: generated from a seed (generate.h), written and read as text, executed
// (execute.h).
//
// A program is a list of operations, each of one of its threads; between two meets the threads run concurrently. What
// it prints (results of calls, hashes of the bytes it read back) depends on nothing but the list: not on addresses, not
// on the interleaving of threads, not on the order in which streams run, because every access that another stream could
// race with is ordered by an event, a wait or a synchronisation (model.h decides). So any difference between two runs
// is a fault of what lies beneath.
#ifndef CUHEAP_TESTS_CAMPAIGNS_RANDOM_PROGRAM_H_
#define CUHEAP_TESTS_CAMPAIGNS_RANDOM_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace cuheap::campaigns {

enum class OpKind : std::uint8_t {
#define OPERATION(kind, text) kind,
#include "tests/campaigns/random/operations.inc"
#undef OPERATION
};
inline constexpr std::size_t kOpKinds = static_cast<std::size_t>(OpKind::kCodes) + 1;

// Streams that no operation creates.
enum SpecialStream : std::int64_t {
  kNullStream = -1,       // 0 under a function's plain name: the legacy default stream
  kLegacyStream = -2,     // CU_STREAM_LEGACY
  kNullPtsz = -3,         // 0 under the name for per-thread default streams (_ptsz, _ptds)
  kPerThreadStream = -4,  // CU_STREAM_PER_THREAD
};

struct Op {
  OpKind kind = OpKind::kMeet;
  int thread = 0;
  std::array<std::int64_t, 6> args{};  // in the order of the text
};

struct Program {
  std::uint64_t seed = 0;
  int threads = 1;
  int devices = 1;
  std::uint64_t memory = 0;  // of a device, in bytes, if the program counts it; else 0
  std::vector<Op> ops;
};

// One line, without the thread.
std::string Text(const Op& op);
// What the text holds at each place: 'b', 's', ... as in operations.inc.
const std::string& ArgumentKinds(OpKind kind);

// "program SEED threads=N devices=N memory=N", then a line an operation: "  NUMBER  tTHREAD  TEXT;".
void Print(const Program& program, std::ostream& out);
// Reads what Print wrote, any number of programs. Numbers of lines may be missing, and anything after "//" is a
// comment. Throws std::runtime_error that names the line.
std::vector<Program> Parse(std::istream& in);

}  // namespace cuheap::campaigns

#endif  // CUHEAP_TESTS_CAMPAIGNS_RANDOM_PROGRAM_H_
