#include "interpose/recorder/recorder.h"

namespace cuheap::recorder {

void ConfigureStacks(const StackOptions&) {}
CapturedStack CaptureStack(bool) { return {}; }
void ModulesChanged() {}

}  // namespace cuheap::recorder
