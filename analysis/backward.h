// What PyTorch's autograd does in stacks that have no Python frame.
//
// Autograd runs the backward pass of a GPU's tensors in a thread of its own, which executes no Python: such stacks can
// name the node of the graph (AddmmBackward0), but not a line. Where it can be told, the line of the forward pass whose
// gradient the node computes is added.
#ifndef CUHEAP_ANALYSIS_BACKWARD_H_
#define CUHEAP_ANALYSIS_BACKWARD_H_

#include "analysis/snapshot.h"

namespace cuheap::analysis {

// Reason of Stack::no_python of autograd's threads.
inline constexpr const char* kBackwardThread = "backward thread: autograd runs it without Python";
// Beginning of the reason of Python frames that were added: they ran in the forward pass, not when this was allocated.
inline constexpr const char* kForwardOf = "forward pass of ";

// Fills Stack::backward, corrects Stack::no_python, and gives the allocations of a node, where it can be told, a stack
// of their own: behind the native frames come the Python frames of the forward operation, with kForwardOf and the node
// as their reason. Precondition: the snapshot is symbolised. A second call changes nothing.
//
// How it is told: nodes of one queue run in the reverse order of the operations that made them (the engine takes the
// highest sequence number first, and a node's consumers were made after it). Between the end of the backward pass
// before and this one, the operations that made nodes of one kind and the nodes of that kind that ran are counted, as
// far as they allocated. Equally many: they pair off in reverse. Otherwise, if all these operations lie on one line,
// that line. Otherwise nothing is said. Not told are nodes that run Python themselves (they have frames), graphs that
// are walked twice, and passes in which more than one thread runs nodes.
void ExplainBackward(Snapshot& snapshot);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_BACKWARD_H_
