// The model of PyTorch's caching allocator: its documented rules one by one, and recordings of PyTorch itself, whose
// reserved memory is met after every request (recorded/README.md).
#include "analysis/torch_cache/torch_cache.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/torch_cache/replay.h"
#include "analysis/torch_cache/settings.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TorchCacheSettings Expandable() {
  TorchCacheSettings settings;
  settings.expandable = true;
  return settings;
}

std::vector<TorchCache::Handle> AllocateMany(TorchCache& cache, int count, std::uint64_t bytes) {
  std::vector<TorchCache::Handle> tensors;
  for (int i = 0; i < count; ++i) tensors.push_back(cache.Allocate(bytes));
  return tensors;
}

void FreeAll(TorchCache& cache, const std::vector<TorchCache::Handle>& tensors) {
  for (const TorchCache::Handle tensor : tensors) cache.Free(tensor);
}

TEST(TorchCache, SegmentsAreAsLargeAsTheRequestsSortSays) {
  TorchCache cache({});
  cache.Allocate(1);
  EXPECT_EQ(cache.reserved(), 2 * kMiB);
  EXPECT_EQ(cache.allocated(), 512U);
  cache.Allocate(kMiB + 1);
  EXPECT_EQ(cache.reserved(), 22 * kMiB) << "over 1 MiB: a segment of 20 MiB";
  cache.Allocate(10 * kMiB);
  EXPECT_EQ(cache.reserved(), 22 * kMiB) << "the rest of it does";
  cache.Allocate(11 * kMiB);
  EXPECT_EQ(cache.reserved(), 34 * kMiB) << "from 10 MiB on: whole 2 MiB";
}

TEST(TorchCache, SmallAndLargeRequestsShareNothing) {
  TorchCache cache({});
  cache.Free(cache.Allocate(2 * kMiB));
  cache.Allocate(kMiB / 2);
  EXPECT_EQ(cache.reserved(), 22 * kMiB) << "as documented: 20 MiB idle serve no small request";
}

TEST(TorchCache, SmallestBlockThatFits) {
  TorchCache cache({});
  const auto large = cache.Allocate(40 * kMiB);
  const auto fitting = cache.Allocate(30 * kMiB);
  const std::uint64_t address = cache.AddressOf(fitting);
  cache.Free(large);
  cache.Free(fitting);
  EXPECT_EQ(cache.AddressOf(cache.Allocate(29 * kMiB)), address);
}

TEST(TorchCache, RestsUpToOneMebibyteStayWithLargeBlocks) {
  TorchCache cache({});
  cache.Free(cache.Allocate(16 * kMiB));
  const auto whole = cache.Allocate(15 * kMiB);
  EXPECT_EQ(cache.BytesOf(whole), 16 * kMiB);
  cache.Free(whole);
  EXPECT_EQ(cache.BytesOf(cache.Allocate(15 * kMiB - 512)), 15 * kMiB - 512);
}

TEST(TorchCache, FreedNeighboursJoin) {
  TorchCache cache({});
  const auto tensors = AllocateMany(cache, 10, 2 * kMiB);
  ASSERT_EQ(cache.reserved(), 20 * kMiB);
  for (const int i : {3, 5, 4}) cache.Free(tensors[static_cast<std::size_t>(i)]);
  const auto joined = cache.Allocate(6 * kMiB);
  EXPECT_EQ(cache.reserved(), 20 * kMiB);
  EXPECT_EQ(cache.AddressOf(joined), cache.AddressOf(tensors[2]) + 2 * kMiB);
}

TEST(TorchCache, StreamsShareNothing) {
  TorchCache cache({});
  cache.Free(cache.Allocate(30 * kMiB, 0));
  cache.Allocate(30 * kMiB, 1);
  EXPECT_EQ(cache.reserved(), 60 * kMiB);
}

TEST(TorchCache, EmptyingGivesBackWholeSegments) {
  TorchCache cache({});
  const auto kept = cache.Allocate(2 * kMiB);
  cache.Free(cache.Allocate(3 * kMiB));
  cache.Free(cache.Allocate(50 * kMiB));
  cache.Empty();
  EXPECT_EQ(cache.reserved(), 20 * kMiB) << "the segment of what lives stays";
  cache.Free(kept);
  cache.Empty();
  EXPECT_EQ(cache.reserved(), 0U);
  EXPECT_EQ(cache.peak(), 70 * kMiB);
}

// PyTorch's own example of expandable segments: eight tensors of 16 MiB, freed, then four of 32 MiB.
TEST(TorchCache, ExpandableSegmentsServeOtherSizes) {
  TorchCache fixed({});
  FreeAll(fixed, AllocateMany(fixed, 8, 16 * kMiB));
  AllocateMany(fixed, 4, 32 * kMiB);
  EXPECT_EQ(fixed.reserved(), 256 * kMiB);
  TorchCache expandable(Expandable());
  FreeAll(expandable, AllocateMany(expandable, 8, 16 * kMiB));
  AllocateMany(expandable, 4, 32 * kMiB);
  EXPECT_EQ(expandable.reserved(), 140 * kMiB) << "seven pages of 20 MiB";
}

TEST(TorchCache, ExpandableSegmentsGrowByPages) {
  TorchCache cache(Expandable());
  cache.Allocate(1);
  EXPECT_EQ(cache.reserved(), 2 * kMiB);
  cache.Allocate(5 * kMiB);
  EXPECT_EQ(cache.reserved(), 22 * kMiB);
  cache.Allocate(30 * kMiB);
  EXPECT_EQ(cache.reserved(), 42 * kMiB) << "the 15 MiB that were idle are its beginning";
  EXPECT_EQ(cache.allocated(), 35 * kMiB + 512);
}

TEST(TorchCache, EmptyingGivesBackWholePages) {
  TorchCache cache(Expandable());
  const auto first = cache.Allocate(30 * kMiB);
  const auto kept = cache.Allocate(5 * kMiB);
  ASSERT_EQ(cache.reserved(), 40 * kMiB);
  cache.Free(first);
  cache.Empty();
  EXPECT_EQ(cache.reserved(), 20 * kMiB) << "the second page holds what lives";
  cache.Allocate(10 * kMiB);
  EXPECT_EQ(cache.reserved(), 20 * kMiB) << "between";
  cache.Allocate(15 * kMiB);
  EXPECT_EQ(cache.reserved(), 40 * kMiB) << "the page that was given back";
  cache.Free(kept);
}

TEST(TorchCache, BlocksOverMaxSplitSizeServeNothingSmaller) {
  TorchCacheSettings settings;
  settings.max_split = 64 * kMiB;
  TorchCache cache(settings);
  cache.Free(cache.Allocate(100 * kMiB));
  cache.Allocate(30 * kMiB);
  EXPECT_EQ(cache.reserved(), 130 * kMiB);
  const auto rounded = cache.Allocate(90 * kMiB);
  EXPECT_EQ(cache.reserved(), 130 * kMiB) << "within 20 MiB";
  EXPECT_EQ(cache.BytesOf(rounded), 100 * kMiB) << "not split";
  cache.Free(rounded);
  cache.Allocate(80 * kMiB);
  EXPECT_EQ(cache.reserved(), 210 * kMiB) << "20 MiB larger is too much";
}

TEST(CacheRequests, MemoryThatWasRefusedIsNotAskedForWhereLessIsHeld) {
  CacheRequests requests;
  ASSERT_TRUE(requests.Allocate(60 * kMiB, 0));
  requests.Free(0);
  requests.EmptyAfterRefusal();
  ASSERT_TRUE(requests.Allocate(70 * kMiB, 0));
  EXPECT_EQ(requests.PeakAsItWas({}), 70 * kMiB);
  EXPECT_EQ(requests.Peak({}), 130 * kMiB);
  EXPECT_EQ(requests.Peak(Expandable()), 80 * kMiB);
  EXPECT_EQ(requests.Peak({}, 50 * kMiB), 60 * kMiB) << "stops where it is more than wanted";
  EXPECT_EQ(requests.largest(), 70 * kMiB);
  EXPECT_FALSE(requests.Allocate(CacheRequests::kMostBytes + 1, 0)) << "a damaged record";
  EXPECT_FALSE(requests.Allocate(1, CacheRequests::kMostStreams));
}

TEST(CacheRequests, ATensorThatTookAWholeBlockAskedForWhatItsLikeAskedFor) {
  constexpr std::uint64_t kAsked = 30 * kMiB, kTook = kAsked + kMiB / 2;
  CacheRequests requests;
  ASSERT_TRUE(requests.Allocate(kTook, 0, 2));            // of 32 MiB
  ASSERT_TRUE(requests.Allocate(kMiB + kMiB / 2, 0, 3));  // the rest
  requests.Free(0);
  ASSERT_TRUE(requests.Allocate(60 * kMiB, 0, 4));
  requests.Free(2);
  ASSERT_TRUE(requests.Allocate(kTook, 0, 7));   // the whole of the first block
  ASSERT_TRUE(requests.Allocate(kAsked, 0, 7));  // a part of the third
  ASSERT_EQ(requests.PeakAsItWas({}), (32 + 60) * kMiB);
  requests.Narrow();
  EXPECT_EQ(requests.Asked(0), kTook) << "a rest was split off: this was asked for";
  EXPECT_EQ(requests.Asked(1), kMiB + kMiB / 2) << "nothing like it is near";
  EXPECT_EQ(requests.Asked(3), kAsked);
  EXPECT_EQ(requests.Asked(4), kAsked);
}

TEST(TorchCacheSettings, AreReadAsPyTorchReadsThem) {
  EXPECT_EQ(ParseTorchCacheSettings(""), TorchCacheSettings{});
  EXPECT_TRUE(ParseTorchCacheSettings("expandable_segments:True").expandable);
  EXPECT_FALSE(ParseTorchCacheSettings("expandable_segments:False").expandable);
  const TorchCacheSettings all =
      ParseTorchCacheSettings("roundup_power2_divisions:[256:1,>:8], max_split_size_mb: 128 ,expandable_segments:True");
  EXPECT_EQ(all.max_split, 128 * kMiB);
  EXPECT_TRUE(all.expandable);
  EXPECT_EQ(ParseTorchCacheSettings("max_split_size_mb:x"), TorchCacheSettings{});
  EXPECT_EQ(ParseTorchCacheSettings("max_split_size_mb:99999999999999999999"), TorchCacheSettings{});
  EXPECT_EQ(ParseTorchCacheSettings("max_split_size_mb:18446744073709551615"), TorchCacheSettings{});
  EXPECT_EQ(ParseTorchCacheSettings("max_split_size_mb:20"), TorchCacheSettings{}) << "refused: it must be more";
  EXPECT_EQ(ParseTorchCacheSettings("backend:native,,]:[,:"), TorchCacheSettings{});
}

// After every request of a recording the model holds what PyTorch held, and a tensor takes what it took there.
class Recording : public testing::TestWithParam<const char*> {};

TEST_P(Recording, IsMetRequestByRequest) {
  std::ifstream file(std::string(CUHEAP_RECORDED_DIR) + "/" + GetParam() + ".txt");
  ASSERT_TRUE(file.is_open());
  TorchCache cache({});
  std::map<std::uint64_t, TorchCache::Handle> live;
  std::size_t requests = 0;
  for (std::string text; std::getline(file, text);) {
    std::istringstream words(text);
    std::string kind, conf;
    std::uint64_t slot = 0, bytes = 0, stream = 0, taken = 0, reserved = 0;
    words >> kind;
    if (kind == "#") continue;
    if (kind == "s") {
      words >> conf;
      cache = TorchCache(ParseTorchCacheSettings(conf));
      continue;
    }
    if (kind == "a") {
      words >> slot >> bytes >> stream >> taken >> reserved;
      live[slot] = cache.Allocate(bytes, static_cast<std::uint32_t>(stream));
      ASSERT_EQ(cache.BytesOf(live[slot]), taken) << text;
    } else if (kind == "f") {
      words >> slot >> reserved;
      cache.Free(live.at(slot));
    } else {
      words >> reserved;
      cache.Empty();
    }
    ASSERT_EQ(cache.reserved(), reserved) << text << " after " << requests;
    ++requests;
  }
  EXPECT_GE(requests, 1000U);
}

INSTANTIATE_TEST_SUITE_P(OfPyTorch, Recording, testing::Values("defaults", "expandable", "max_split", "both"));

}  // namespace
}  // namespace cuheap::analysis
