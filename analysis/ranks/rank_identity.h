// Which rank of a distributed run a process is: as its launcher told it, or else as the name of its file says.
#ifndef CUHEAP_ANALYSIS_RANKS_RANK_IDENTITY_H_
#define CUHEAP_ANALYSIS_RANKS_RANK_IDENTITY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace cuheap::analysis {

enum class RankSource : std::uint8_t {
  kNone,      // nothing tells: a process by itself
  kLauncher,  // the launcher's variables, recorded in the snapshot
  kFileName,  // "...rank3..." (PyTorch's snapshots name no process)
};

struct RankIdentity {
  RankSource source = RankSource::kNone;
  std::optional<std::uint32_t> rank, local_rank, world_size;
};

// launcher: Process::launcher. RANK is torchrun's and whatever follows it, and stands before Open MPI's, PMI's and
// Slurm's own, since a torchrun that Slurm started sets the ranks itself; world sizes likewise.
RankIdentity IdentifyRank(const std::map<std::string, std::string>& launcher, std::string_view path);

// "out/mem_rank-3_step10.pickle" -> 3: the last number that follows the word "rank" (and one of "_-=." or nothing) in
// the file's own name.
std::optional<std::uint32_t> RankInFileName(std::string_view path);

// Ranks are no more than this: a larger number is not taken for one.
inline constexpr std::uint32_t kMostRanks = 1u << 24;

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_RANKS_RANK_IDENTITY_H_
