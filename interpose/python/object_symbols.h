// The exported names of one loaded object, read from its own tables: no loader call, so no lock, whatever scope the
// object was opened in.
#ifndef CUHEAP_INTERPOSE_PYTHON_OBJECT_SYMBOLS_H_
#define CUHEAP_INTERPOSE_PYTHON_OBJECT_SYMBOLS_H_

#include <elf.h>

#include <cstdint>

#include "interpose/stacks/loaded_objects.h"

namespace cuheap::python {

class ObjectSymbols {
 public:
  // Precondition: the object stays loaded as long as this is used.
  explicit ObjectSymbols(const stacks::LoadedObject& object);

  struct Symbol {
    std::uint64_t address = 0;  // 0: the object defines no such name
    std::uint64_t bytes = 0;
  };
  Symbol Find(const char* name) const;

 private:
  void ReadDynamic(const stacks::LoadedObject& object, std::uint64_t begin, std::uint64_t end);

  std::uint64_t load_bias_ = 0;
  const Elf64_Sym* symbols_ = nullptr;
  const char* strings_ = nullptr;
  const std::uint32_t* gnu_hash_ = nullptr;  // nullptr: nothing is found
};

}  // namespace cuheap::python

#endif  // CUHEAP_INTERPOSE_PYTHON_OBJECT_SYMBOLS_H_
