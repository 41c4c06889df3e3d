// A long column of integers or enum values that takes the bytes its values need: values are kept in chunks, each with
// its smallest value and, for each row, the distance from it in as many bytes as the chunk's largest distance has.
// Times, addresses and ids of neighbouring events lie close together, most flags are equal, so that ten million events
// take a third of what vectors of their types would, and growing never copies what is there.
//
// Read like a vector, by value; written at its end only.
#ifndef CUHEAP_ANALYSIS_PACKED_COLUMN_H_
#define CUHEAP_ANALYSIS_PACKED_COLUMN_H_

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace cuheap::analysis {

template <typename Value>
  requires(std::is_integral_v<Value> || std::is_enum_v<Value>)
class PackedColumn {
 public:
  class Iterator;
  using value_type = Value;
  using const_iterator = Iterator;

  PackedColumn() = default;
  PackedColumn(std::initializer_list<Value> values) {
    for (const Value value : values) push_back(value);
  }
  PackedColumn(const PackedColumn& other) { *this = other; }
  PackedColumn(PackedColumn&& other) noexcept { swap(other); }
  PackedColumn& operator=(const PackedColumn& other) {
    if (this == &other) return *this;
    PackedColumn copy;
    for (const Value value : other) copy.push_back(value);
    swap(copy);
    return *this;
  }
  PackedColumn& operator=(PackedColumn&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PackedColumn() = default;

  std::size_t size() const { return chunks_.size() * kRows + tail_.size(); }
  bool empty() const { return size() == 0; }
  Value operator[](std::size_t row) const {
    const std::size_t chunk = row / kRows;
    return chunk < chunks_.size() ? chunks_[chunk].At(row % kRows) : tail_[row % kRows];
  }
  Value at(std::size_t row) const {
    if (row >= size()) throw std::out_of_range("PackedColumn::at");
    return (*this)[row];
  }
  Value front() const { return (*this)[0]; }
  Value back() const { return (*this)[size() - 1]; }
  Iterator begin() const { return Iterator(this, 0); }
  Iterator end() const { return Iterator(this, size()); }

  void push_back(Value value) {
    if (tail_.capacity() == 0) tail_.reserve(kRowsAtFirst);
    tail_.push_back(value);
    if (tail_.size() < kRows) return;
    chunks_.push_back(Pack(tail_));
    tail_.clear();
  }
  // Slower than reading: the chunk is packed anew. For many rows see Transform.
  void Set(std::size_t row, Value value) {
    const std::size_t chunk = row / kRows;
    if (chunk == chunks_.size()) {
      tail_[row % kRows] = value;
      return;
    }
    std::vector<Value> rows = chunks_[chunk].Unpack();
    rows[row % kRows] = value;
    chunks_[chunk] = Pack(rows);
  }
  void SetBack(Value value) { Set(size() - 1, value); }
  // Every value becomes what change(row, value) gives, in order.
  template <typename Change>
  void Transform(Change change) {
    std::size_t row = 0;
    for (Chunk& chunk : chunks_) {
      std::vector<Value> rows = chunk.Unpack();
      for (Value& value : rows) value = change(row++, value);
      chunk = Pack(rows);
    }
    for (Value& value : tail_) value = change(row++, value);
  }
  void clear() { *this = PackedColumn(); }
  void swap(PackedColumn& other) noexcept {
    chunks_.swap(other.chunks_);
    tail_.swap(other.tail_);
  }

  friend bool operator==(const PackedColumn& a, const PackedColumn& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  static constexpr std::size_t kRows = 2048, kRowsAtFirst = 16;
  using Word = std::uint64_t;
  static_assert(std::endian::native == std::endian::little);  // a word's first bytes are its low ones

  struct Chunk {
    Word least = 0;
    Word mask = 0;            // of the bytes that a distance has
    std::uint32_t bytes = 0;  // of a distance
    std::unique_ptr<std::byte[]> distances;
    Value At(std::size_t row) const {
      Word distance;
      std::memcpy(&distance, distances.get() + row * bytes, sizeof(distance));
      return static_cast<Value>(least + (distance & mask));
    }
    std::vector<Value> Unpack() const {
      std::vector<Value> rows(kRows);
      for (std::size_t row = 0; row < kRows; ++row) rows[row] = At(row);
      return rows;
    }
  };

  static Chunk Pack(const std::vector<Value>& rows) {
    const auto [least, most] = std::minmax_element(rows.begin(), rows.end());
    Chunk chunk;
    chunk.least = static_cast<Word>(*least);
    const Word range = static_cast<Word>(*most) - chunk.least;
    chunk.bytes = static_cast<std::uint32_t>(std::bit_width(range) + 7) / 8;
    chunk.mask = chunk.bytes == sizeof(Word) ? ~Word{0} : (Word{1} << 8 * chunk.bytes) - 1;
    // Words are read whole: the last one may reach beyond the last distance.
    chunk.distances = std::make_unique_for_overwrite<std::byte[]>(kRows * chunk.bytes + sizeof(Word));
    std::byte* to = chunk.distances.get();
    for (const Value value : rows) {
      const Word distance = static_cast<Word>(value) - chunk.least;
      std::memcpy(to, &distance, sizeof(distance));
      to += chunk.bytes;
    }
    std::memset(to, 0, sizeof(Word));
    return chunk;
  }

  std::vector<Chunk> chunks_;  // of kRows rows each
  std::vector<Value> tail_;    // the rows after them, fewer than kRows
};

template <typename Value>
  requires(std::is_integral_v<Value> || std::is_enum_v<Value>)
class PackedColumn<Value>::Iterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = Value;
  using difference_type = std::ptrdiff_t;
  using reference = Value;
  using pointer = void;

  Iterator() = default;
  Iterator(const PackedColumn* column, std::size_t row) : column_(column), row_(static_cast<difference_type>(row)) {}
  Value operator*() const { return (*column_)[static_cast<std::size_t>(row_)]; }
  Value operator[](difference_type rows) const { return *(*this + rows); }
  Iterator& operator+=(difference_type rows) {
    row_ += rows;
    return *this;
  }
  Iterator& operator-=(difference_type rows) { return *this += -rows; }
  Iterator& operator++() { return *this += 1; }
  Iterator& operator--() { return *this -= 1; }
  Iterator operator++(int) {
    const Iterator before = *this;
    ++*this;
    return before;
  }
  Iterator operator--(int) {
    const Iterator before = *this;
    --*this;
    return before;
  }
  friend Iterator operator+(Iterator at, difference_type rows) { return at += rows; }
  friend Iterator operator+(difference_type rows, Iterator at) { return at += rows; }
  friend Iterator operator-(Iterator at, difference_type rows) { return at -= rows; }
  friend difference_type operator-(const Iterator& a, const Iterator& b) { return a.row_ - b.row_; }
  friend bool operator==(const Iterator& a, const Iterator& b) { return a.row_ == b.row_; }
  friend auto operator<=>(const Iterator& a, const Iterator& b) { return a.row_ <=> b.row_; }

 private:
  const PackedColumn* column_ = nullptr;
  difference_type row_ = 0;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_PACKED_COLUMN_H_
