// Order between plain stores into the journal and the words that publish them.
#ifndef CUHEAP_INTERPOSE_RECORDER_STORE_ORDER_H_
#define CUHEAP_INTERPOSE_RECORDER_STORE_ORDER_H_

#include <atomic>

namespace cuheap::recorder {

// What was stored before is seen before what is stored after, by a reader in another process or after a kill.
// ThreadSanitizer knows no fences; no thread of this process reads what they order.
inline void OrderStores() {
#ifdef __SANITIZE_THREAD__
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

}  // namespace cuheap::recorder

#endif  // CUHEAP_INTERPOSE_RECORDER_STORE_ORDER_H_
