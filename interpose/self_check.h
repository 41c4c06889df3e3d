// What we stand in front of, and what we do not: notes in the journal, which the report shows as "not observed".
//
// Two looks. After the first cuInit: the driver itself. At the end of the process (and at a file that is about to be
// closed): libraries that reach the driver without us, see interpose/unseen/unseen.h. Findings are kept until there is
// a journal to write them to.
#ifndef CUHEAP_INTERPOSE_SELF_CHECK_H_
#define CUHEAP_INTERPOSE_SELF_CHECK_H_

namespace cuheap {

class DriverTable;

// After the first cuInit.
void SelfCheck(const DriverTable& driver);

// For exit handlers and destructors. The path of a driver that the process used although no call of it came to us; null
// if there is none, or if calls may have come. Takes no lock: a look that another thread is at is waited for a moment,
// then left.
const char* LookAtEnd();

// Before dlclose: the object may be gone at the end. handle: what the program passes, whatever it is. Keeps errno. Only
// the first few hundred calls look, for programs that do nothing else.
void LookBeforeClose(void* handle);

// Writes what was found so far. The recorder must be there. a_call_came: one of the driver's functions was called through
// us; if none was, all of the process was not seen.
void ReportUnseen(bool a_call_came);

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_SELF_CHECK_H_
