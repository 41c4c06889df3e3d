// Descriptors of the simulated cuBLASLt: plain memory with documented attributes, small enough for the opaque
// structures that programs declare themselves (cublasLt*Opaque_t).
#ifndef CUHEAP_TOOLS_SIMCUDA_LIBRARIES_CUBLASLT_ATTRIBUTES_H_
#define CUHEAP_TOOLS_SIMCUDA_LIBRARIES_CUBLASLT_ATTRIBUTES_H_

#include <cstring>
#include <span>

#include "tools/simcuda/libraries/blas.h"

namespace cuheap::simblas {

// cublasLtMatrixLayout_t.
struct MatrixLayout {
  std::uint64_t rows, columns;
  std::int64_t leading_dimension, batch_stride, plane_offset;
  std::uint32_t type;
  std::int32_t order, batch_count;
  std::uint32_t batch_mode;
  std::uint32_t index_width, leading_dimension_width;  // of grouped layouts
};
static_assert(sizeof(MatrixLayout) <= 64);

// cublasLtMatmulDesc_t. Attribute numbers are cublasLtMatmulDescAttributes_t's.
struct MatmulDescription {
  void* bias;
  std::int64_t bias_stride;
  void* aux;
  std::int64_t aux_leading_dimension, aux_stride, alpha_stride, beta_batch_stride, alpha_batch_stride;
  void *a_scale, *b_scale, *c_scale, *d_scale, *d_amax, *aux_scale, *aux_amax, *d_out_scale, *emulation;
  void *chunk_in_counters, *chunk_out_counters;  // CUDA 12 only
  std::int32_t compute_type, scale_type, pointer_mode, transpose_a, transpose_b, transpose_c, fill_mode;
  std::uint32_t epilogue;
  std::int32_t sm_count_target, aux_type, bias_type;
  std::int32_t a_scale_mode, b_scale_mode, c_scale_mode, d_scale_mode, aux_scale_mode, d_out_scale_mode;
  std::int32_t row_chunks, column_chunks;  // CUDA 12 only
  std::int8_t fast_accumulation;
};
static_assert(sizeof(MatmulDescription) <= 256);

// cublasLtMatmulPreference_t.
struct MatmulPreference {
  std::uint64_t max_workspace, implementation_mask;
  std::uint32_t search_mode, reduction_mask, alignment_a, alignment_b, alignment_c, alignment_d;
  float max_waves;
  std::uint32_t grouped_reduction, grouped_rows;
};
static_assert(sizeof(MatmulPreference) <= 64);

// cublasLtMatrixTransformDesc_t.
struct TransformDescription {
  std::int32_t scale_type, pointer_mode, transpose_a, transpose_b;
};
static_assert(sizeof(TransformDescription) <= 64);

// cublasLtEmulationDesc_t.
struct EmulationDescription {
  std::int32_t* mantissa_bit_count;
  std::int32_t strategy, special_values, mantissa_control, max_mantissa_bits, mantissa_bit_offset;
};
static_assert(sizeof(EmulationDescription) <= 64);

// cublasLtMatmulAlgo_t.
struct MatmulAlgorithm {
  std::int32_t id;
  std::uint32_t tile;
  std::int32_t split_k;
  std::uint32_t reduction_scheme, swizzling, custom_option, stages;
  std::uint16_t inner_shape, cluster_shape;
};
static_assert(sizeof(MatmulAlgorithm) <= 64);

// Where an attribute lies in a descriptor.
struct Attribute {
  int number;
  std::size_t offset;
  std::size_t bytes;
};

// As cublasLt*SetAttribute and *GetAttribute document: kInvalidValue for a null descriptor or buffer, an attribute
// that isn't one, or a wrong size; a query of size 0 only asks for the size.
Status SetAttribute(void* object, std::span<const Attribute> attributes, int number, const void* value,
                    std::size_t bytes);
Status GetAttribute(const void* object, std::span<const Attribute> attributes, int number, void* value,
                    std::size_t bytes, std::size_t* written);

}  // namespace cuheap::simblas

#endif  // CUHEAP_TOOLS_SIMCUDA_LIBRARIES_CUBLASLT_ATTRIBUTES_H_
