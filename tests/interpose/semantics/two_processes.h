// Scenes of two processes: the program, and a second one that it starts, of the same file and scene. The first prints
// its own lines and then the second's.
//
// In the second process's environment LD_PRELOAD is what SEMANTICS_SECOND_PRELOAD of the first says, if it is set.
#ifndef CUHEAP_TESTS_INTERPOSE_SEMANTICS_TWO_PROCESSES_H_
#define CUHEAP_TESTS_INTERPOSE_SEMANTICS_TWO_PROCESSES_H_

#include <sys/types.h>

#include <cstddef>

namespace semantics {

// One end of the line between the two. Whatever fails ends the process after a line that says so.
class Line {
 public:
  explicit Line(int socket) : socket_(socket) {}

  template <class Value>
  void Send(const Value& value) {
    SendBytes(&value, sizeof(value));
  }
  template <class Value>
  Value Receive() {
    Value value{};
    ReceiveBytes(&value, sizeof(value));
    return value;
  }
  // Waits until the other has come as far.
  void Meet() {
    Send('.');
    Receive<char>();
  }
  void SendDescriptor(int descriptor);
  int ReceiveDescriptor();
  // Waits until the other process has ended.
  void WaitForEnd();

 private:
  void SendBytes(const void* bytes, std::size_t size);
  void ReceiveBytes(void* bytes, std::size_t size);

  int socket_;
};

// Calls first(line) here and second(line) in the other process.
void RunTwo(const char* scene, void (*first)(Line& line), void (*second)(Line& line));

}  // namespace semantics

#endif  // CUHEAP_TESTS_INTERPOSE_SEMANTICS_TWO_PROCESSES_H_
