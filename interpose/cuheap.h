/* What a program may tell cuheap, if it wants to. Without the preload library these symbols do not exist: declare them
 * weak, or look them up with dlsym(RTLD_DEFAULT, ...). */
#ifndef CUHEAP_INTERPOSE_CUHEAP_H_
#define CUHEAP_INTERPOSE_CUHEAP_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A step of the program's main loop begins: growth per step is then counted by these marks instead of being inferred.
 * Any thread; any number, 0 if there is none. Does nothing before the program's first driver call. */
void cuheap_step(uint64_t step);

#ifdef __cplusplus
}
#endif

#endif /* CUHEAP_INTERPOSE_CUHEAP_H_ */
