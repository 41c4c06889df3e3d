#include "interpose/cuheap.h"
#include "interpose/recorder/recorder.h"

extern "C" __attribute__((visibility("default"))) void cuheap_step(uint64_t step) { cuheap::recorder::StepMark(step); }
