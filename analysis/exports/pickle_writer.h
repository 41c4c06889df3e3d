// Writes pickles of plain data: protocol 4, in the opcodes that PyTorch's viewer knows (torch/utils/viz/MemoryViz.js,
// unpickle): numbers, strings, lists, dicts, pairs, and what is shared by number. Format: CPython, Lib/pickletools.py.
#ifndef CUHEAP_ANALYSIS_EXPORTS_PICKLE_WRITER_H_
#define CUHEAP_ANALYSIS_EXPORTS_PICKLE_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "analysis/text_file.h"

namespace cuheap::analysis {

// A dict is BeginDict, key, value, key, value, ..., EndDict; a list BeginList, elements, each behind Element(),
// EndList.
class PickleWriter {
 public:
  explicit PickleWriter(TextSink& sink) : sink_(sink) {}

  void Begin();  // once, before everything
  void End();    // once, behind the only value

  void Unsigned(std::uint64_t value);
  void Signed(std::int64_t value);
  void Bool(bool value);
  // Kept, so that the next one of the same text is a reference. Bytes that are not UTF-8 become U+FFFD.
  void String(std::string_view text);
  void Pair(std::uint64_t first, std::uint64_t second);
  void BeginDict();
  void EndDict();

  // Elements go in batches, as Python writes them: readers in JavaScript take the whole of a batch as arguments of one
  // call.
  class List {
   public:
    void Element(PickleWriter& writer);
    bool empty() const { return empty_; }

   private:
    friend class PickleWriter;
    std::uint32_t in_batch_ = 0;
    bool empty_ = true;
  };
  List BeginList();
  void EndList(List& list);

  // Makes the value that was just written (EndDict, EndList) shared, and returns the number for Shared().
  std::uint32_t Share();
  void Shared(std::uint32_t number);

 private:
  void Write(std::string_view bytes) { sink_.Write(bytes); }
  // The number's lowest bytes, least significant first.
  void LittleEndian(std::uint64_t value, int bytes);

  TextSink& sink_;
  std::unordered_map<std::string, std::uint32_t> strings_;
  std::uint32_t shared_ = 0;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_PICKLE_WRITER_H_
