// The library's state in this process: off until the first driver call, then one router for good.
//
// Note [States]
// Nothing is made before the program makes a driver call: no file, no thread, no output, no handler. The first call
// makes the router; a thread that comes meanwhile waits for it, which is safe because making it takes no lock of the
// loader. The router is never destroyed: calls come after exit handlers too. In a forked child everything is passed
// through, for CUDA does not work there and the books are the parent's.
#ifndef CUHEAP_INTERPOSE_PROCESS_H_
#define CUHEAP_INTERPOSE_PROCESS_H_

namespace cuheap {

class DriverTable;
class Router;

// The router, made on the first call; null when everything is to be passed through.
Router* EnterProcess(const DriverTable& driver);

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_PROCESS_H_
