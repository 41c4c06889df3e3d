// Tells PyTorch that the user switched cuDNN off, since cuDNN is not simulated: convolutions, recurrent layers and
// attention then take PyTorch's own kernels. torch.backends.cudnn.enabled and the choice of cuDNN for attention ask
// these two members of at::Context through the loader, so a preloaded definition answers them; scripts need no change.
// The names are the Itanium C++ ABI's of `bool at::Context::userEnabledCuDNN() const` and `userEnabledCuDNNSDP`.

#define SIMCUDA_NO(name) \
  extern "C" __attribute__((visibility("default"))) bool name(const void*) { return false; }

SIMCUDA_NO(_ZNK2at7Context16userEnabledCuDNNEv)
SIMCUDA_NO(_ZNK2at7Context19userEnabledCuDNNSDPEv)
