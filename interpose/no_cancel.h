// While it lives, the thread is not cancelled: a cancellation point under the pool's books would leave them half
// written, which pthread_cancel(3) allows to happen in any blocking call.
#ifndef CUHEAP_INTERPOSE_NO_CANCEL_H_
#define CUHEAP_INTERPOSE_NO_CANCEL_H_

#include <pthread.h>

namespace cuheap {

class NoCancel {
 public:
  NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { pthread_setcancelstate(before_, nullptr); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_NO_CANCEL_H_
