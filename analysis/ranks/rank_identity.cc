#include "analysis/ranks/rank_identity.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <initializer_list>

namespace cuheap::analysis {
namespace {

bool IsLetter(char byte) { return std::isalpha(static_cast<unsigned char>(byte)) != 0; }
bool IsDigit(char byte) { return byte >= '0' && byte <= '9'; }

std::optional<std::uint32_t> ParseCount(std::string_view digits, std::uint32_t most) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || value > most)
    return std::nullopt;
  return value;
}

std::optional<std::uint32_t> FirstOf(const std::map<std::string, std::string>& launcher,
                                     std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = launcher.find(name);
    if (found == launcher.end()) continue;
    if (const std::optional<std::uint32_t> value = ParseCount(found->second, kMostRanks)) return value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint32_t> RankInFileName(std::string_view path) {
  std::string name(path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kWord = "rank";
  for (std::size_t at = name.rfind(kWord); at != std::string::npos; at = at == 0 ? at - 1 : name.rfind(kWord, at - 1)) {
    std::size_t digits = at + kWord.size();
    if (at > 0 && IsLetter(name[at - 1])) continue;  // "frank2"
    if (digits < name.size() && std::string_view("_-=.").find(name[digits]) != std::string_view::npos) ++digits;
    std::size_t end = digits;
    while (end < name.size() && IsDigit(name[end])) ++end;
    if (const auto rank = ParseCount(std::string_view(name).substr(digits, end - digits), kMostRanks - 1)) return rank;
  }
  return std::nullopt;
}

RankIdentity IdentifyRank(const std::map<std::string, std::string>& launcher, std::string_view path) {
  RankIdentity identity;
  identity.rank = FirstOf(launcher, {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"});
  identity.local_rank = FirstOf(launcher, {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"});
  identity.world_size = FirstOf(launcher, {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"});
  if (identity.rank) {
    identity.source = RankSource::kLauncher;
    return identity;
  }
  identity.rank = RankInFileName(path);
  if (identity.rank) identity.source = RankSource::kFileName;
  return identity;
}

}  // namespace cuheap::analysis
