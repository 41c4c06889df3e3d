#include "analysis/packed_column.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

namespace cuheap::analysis {
namespace {

template <typename Value>
void ExpectSame(const PackedColumn<Value>& column, const std::vector<Value>& values) {
  ASSERT_EQ(column.size(), values.size());
  EXPECT_EQ(column.empty(), values.empty());
  EXPECT_TRUE(std::equal(column.begin(), column.end(), values.begin(), values.end()));
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(column[i], values[i]) << i;
  if (values.empty()) return;
  EXPECT_EQ(column.front(), values.front());
  EXPECT_EQ(column.back(), values.back());
}

// Runs of values that need 0 to 8 bytes beside each other, of lengths around those of chunks.
template <typename Value>
void TryType() {
  std::mt19937_64 random(1);
  for (const std::size_t rows : {0, 1, 15, 2047, 2048, 2049, 4096, 20000}) {
    PackedColumn<Value> column;
    std::vector<Value> values;
    std::uint64_t least = 0;
    unsigned bits = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      if (i % 700 == 0) least = random(), bits = static_cast<unsigned>(random() % 65);
      const std::uint64_t distance = bits == 0 ? 0 : random() >> (64 - bits);
      values.push_back(static_cast<Value>(least + distance));
      column.push_back(values.back());
    }
    ExpectSame(column, values);
    const PackedColumn<Value> copy = column;
    EXPECT_EQ(copy, column);
    for (const std::size_t row : {0, 2000, 2047, 2048, 19999}) {
      if (row >= rows) continue;
      values[row] = static_cast<Value>(random());
      column.Set(row, values[row]);
      ExpectSame(column, values);
    }
    const auto change = [](std::size_t row, Value value) {
      return static_cast<Value>(value * 3 + static_cast<Value>(row));
    };
    column.Transform(change);
    for (std::size_t i = 0; i < rows; ++i) values[i] = change(i, values[i]);
    ExpectSame(column, values);
    const PackedColumn<Value> moved = std::move(column);
    ExpectSame(moved, values);
  }
}

TEST(PackedColumnTest, GivesBackWhatWasPutIn) {
  TryType<std::uint8_t>();
  TryType<std::uint16_t>();
  TryType<std::uint32_t>();
  TryType<std::uint64_t>();
  TryType<std::int64_t>();
}

TEST(PackedColumnTest, ExtremesOfATypeLieBesideEachOther) {
  using Limits = std::numeric_limits<std::int64_t>;
  PackedColumn<std::int64_t> column;
  std::vector<std::int64_t> values;
  for (int i = 0; i < 5000; ++i) {
    values.push_back(i % 3 == 0 ? Limits::min() : i % 3 == 1 ? Limits::max() : -1);
    column.push_back(values.back());
  }
  ExpectSame(column, values);
}

TEST(PackedColumnTest, IsSearchedLikeAVector) {
  PackedColumn<std::int64_t> column;
  for (int i = 0; i < 10'000; ++i) column.push_back(2 * i);
  for (const std::int64_t wanted : {-1, 0, 1, 4095, 4096, 4097, 19'998, 19'999}) {
    const auto found = std::lower_bound(column.begin(), column.end(), wanted);
    EXPECT_EQ(found - column.begin(), std::max<std::int64_t>(0, (wanted + 1) / 2)) << wanted;
  }
  EXPECT_TRUE(std::is_sorted(column.begin(), column.end()));
  EXPECT_EQ(*(column.end() - 1), 19'998);
  EXPECT_EQ(column.begin()[4100], 8200);
}

TEST(PackedColumnTest, OutOfRangeIsAnError) {
  const PackedColumn<std::uint32_t> column = {1, 2};
  EXPECT_EQ(column.at(1), 2u);
  EXPECT_THROW(column.at(2), std::out_of_range);
}

}  // namespace
}  // namespace cuheap::analysis
