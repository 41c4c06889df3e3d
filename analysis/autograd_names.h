// PyTorch's names for operations that autograd records and for the nodes that compute their gradients.
#ifndef CUHEAP_ANALYSIS_AUTOGRAD_NAMES_H_
#define CUHEAP_ANALYSIS_AUTOGRAD_NAMES_H_

#include <string_view>

namespace cuheap::analysis {

// "AddmmBackward0" of a node's function "torch::autograd::generated::AddmmBackward0::apply(...)", "AccumulateGrad" of
// "torch::autograd::AccumulateGrad::apply(...)"; empty: no such function.
std::string_view NodeOfFunction(std::string_view function);

// "mean_dim" of "torch::autograd::VariableType::(anonymous namespace)::mean_dim(...)"; empty: no such function.
std::string_view OperationOfFunction(std::string_view function);

// The operation makes nodes of this kind: "mean_dim" makes "MeanBackward1". An operation's name is a base name and,
// behind '_', the name of an overload; a node's is the base name without '_' in camel case, "Backward" and a number.
// Source: PyTorch, tools/autograd (derivatives.yaml and the generator of node names).
bool Makes(std::string_view operation, std::string_view node);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_AUTOGRAD_NAMES_H_
