// cuBLASLt, "Using the cuBLASLt API": layouts, operation descriptors and preferences.
#include <new>

#include "tools/simcuda/libraries/cublaslt_attributes.h"

namespace cuheap::simblas {
namespace {

#define FIELD(number, Type, member) \
  Attribute { number, offsetof(Type, member), sizeof(Type::member) }

constexpr Attribute kLayoutAttributes[] = {
    FIELD(0, MatrixLayout, type),
    FIELD(1, MatrixLayout, order),
    FIELD(2, MatrixLayout, rows),
    FIELD(3, MatrixLayout, columns),
    FIELD(4, MatrixLayout, leading_dimension),
    FIELD(5, MatrixLayout, batch_count),
    FIELD(6, MatrixLayout, batch_stride),
    FIELD(7, MatrixLayout, plane_offset),
    FIELD(8, MatrixLayout, batch_mode),
    // Grouped layouts hold the addresses of arrays where the others hold numbers.
    FIELD(9, MatrixLayout, rows),
    FIELD(10, MatrixLayout, columns),
    FIELD(11, MatrixLayout, leading_dimension),
    FIELD(12, MatrixLayout, index_width),
    FIELD(13, MatrixLayout, leading_dimension_width),
};

constexpr Attribute kMatmulAttributes[] = {
    FIELD(0, MatmulDescription, compute_type),
    FIELD(1, MatmulDescription, scale_type),
    FIELD(2, MatmulDescription, pointer_mode),
    FIELD(3, MatmulDescription, transpose_a),
    FIELD(4, MatmulDescription, transpose_b),
    FIELD(5, MatmulDescription, transpose_c),
    FIELD(6, MatmulDescription, fill_mode),
    FIELD(7, MatmulDescription, epilogue),
    FIELD(8, MatmulDescription, bias),
    FIELD(10, MatmulDescription, bias_stride),
    FIELD(11, MatmulDescription, aux),
    FIELD(12, MatmulDescription, aux_leading_dimension),
    FIELD(13, MatmulDescription, aux_stride),
    FIELD(14, MatmulDescription, alpha_stride),
    FIELD(15, MatmulDescription, sm_count_target),
    FIELD(17, MatmulDescription, a_scale),
    FIELD(18, MatmulDescription, b_scale),
    FIELD(19, MatmulDescription, c_scale),
    FIELD(20, MatmulDescription, d_scale),
    FIELD(21, MatmulDescription, d_amax),
    FIELD(22, MatmulDescription, aux_type),
    FIELD(23, MatmulDescription, aux_scale),
    FIELD(24, MatmulDescription, aux_amax),
    FIELD(25, MatmulDescription, fast_accumulation),
    FIELD(26, MatmulDescription, bias_type),
    FIELD(27, MatmulDescription, row_chunks),
    FIELD(28, MatmulDescription, column_chunks),
    FIELD(29, MatmulDescription, chunk_in_counters),
    FIELD(30, MatmulDescription, chunk_out_counters),
    FIELD(31, MatmulDescription, a_scale_mode),
    FIELD(32, MatmulDescription, b_scale_mode),
    FIELD(33, MatmulDescription, c_scale_mode),
    FIELD(34, MatmulDescription, d_scale_mode),
    FIELD(35, MatmulDescription, aux_scale_mode),
    FIELD(36, MatmulDescription, d_out_scale),
    FIELD(37, MatmulDescription, d_out_scale_mode),
    FIELD(38, MatmulDescription, emulation),
    FIELD(39, MatmulDescription, alpha_batch_stride),
    FIELD(40, MatmulDescription, beta_batch_stride),
};

constexpr Attribute kPreferenceAttributes[] = {
    FIELD(0, MatmulPreference, search_mode),          FIELD(1, MatmulPreference, max_workspace),
    FIELD(3, MatmulPreference, reduction_mask),       FIELD(5, MatmulPreference, alignment_a),
    FIELD(6, MatmulPreference, alignment_b),          FIELD(7, MatmulPreference, alignment_c),
    FIELD(8, MatmulPreference, alignment_d),          FIELD(9, MatmulPreference, max_waves),
    FIELD(12, MatmulPreference, implementation_mask), FIELD(13, MatmulPreference, grouped_reduction),
    FIELD(14, MatmulPreference, grouped_rows),
};

constexpr Attribute kTransformAttributes[] = {
    FIELD(0, TransformDescription, scale_type),
    FIELD(1, TransformDescription, pointer_mode),
    FIELD(2, TransformDescription, transpose_a),
    FIELD(3, TransformDescription, transpose_b),
};

constexpr Attribute kEmulationAttributes[] = {
    FIELD(0, EmulationDescription, strategy),
    FIELD(1, EmulationDescription, special_values),
    FIELD(2, EmulationDescription, mantissa_control),
    FIELD(3, EmulationDescription, max_mantissa_bits),
    FIELD(4, EmulationDescription, mantissa_bit_offset),
    FIELD(5, EmulationDescription, mantissa_bit_count),
};

const Attribute* Find(std::span<const Attribute> attributes, int number) {
  for (const Attribute& attribute : attributes) {
    if (attribute.number == number) return &attribute;
  }
  return nullptr;
}

// Puts `value` into memory of `bytes` that the program declared.
template <typename T>
Status Initialise(T* memory, std::size_t bytes, const T& value) {
  if (memory == nullptr || bytes < sizeof(T)) return kInvalidValue;
  std::memset(static_cast<void*>(memory), 0, bytes);
  *memory = value;
  return kSuccess;
}

template <typename T>
Status Create(T** object, const T& value) {
  if (object == nullptr) return kInvalidValue;
  *object = new (std::nothrow) T(value);
  return *object == nullptr ? kAllocFailed : kSuccess;
}

template <typename T>
Status Destroy(T* object) {
  delete object;
  return kSuccess;
}

MatrixLayout Layout(int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading_dimension) {
  MatrixLayout layout = {};
  layout.type = static_cast<std::uint32_t>(type);
  layout.rows = rows;
  layout.columns = columns;
  layout.leading_dimension = leading_dimension;
  layout.batch_count = 1;
  return layout;
}

MatrixLayout GroupedLayout(int type, int groups, const void* rows, const void* columns, const void* leading) {
  MatrixLayout layout = {};
  layout.type = static_cast<std::uint32_t>(type);
  layout.rows = reinterpret_cast<std::uint64_t>(rows);
  layout.columns = reinterpret_cast<std::uint64_t>(columns);
  layout.leading_dimension = static_cast<std::int64_t>(reinterpret_cast<std::uint64_t>(leading));
  layout.batch_count = groups;
  layout.batch_mode = 2;  // CUBLASLT_BATCH_MODE_GROUPED
  return layout;
}

MatmulDescription Matmul(int compute_type, int scale_type) {
  MatmulDescription description = {};
  description.compute_type = compute_type;
  description.scale_type = scale_type;
  description.epilogue = 1;   // CUBLASLT_EPILOGUE_DEFAULT
  description.fill_mode = 2;  // CUBLAS_FILL_MODE_FULL
  description.aux_type = -1;
  description.bias_type = -1;
  return description;
}

MatmulPreference Preference() {
  MatmulPreference preference = {};
  preference.implementation_mask = ~std::uint64_t{0};
  preference.reduction_mask = 7;  // CUBLASLT_REDUCTION_SCHEME_MASK
  preference.alignment_a = preference.alignment_b = preference.alignment_c = preference.alignment_d = 256;
  return preference;
}

EmulationDescription Emulation() {
  EmulationDescription description = {};
  description.special_values = 0xFFFF;
  return description;
}

}  // namespace

Status SetAttribute(void* object, std::span<const Attribute> attributes, int number, const void* value,
                    std::size_t bytes) {
  const Attribute* attribute = Find(attributes, number);
  if (object == nullptr || value == nullptr || attribute == nullptr || bytes != attribute->bytes) return kInvalidValue;
  std::memcpy(static_cast<char*>(object) + attribute->offset, value, bytes);
  return kSuccess;
}

Status GetAttribute(const void* object, std::span<const Attribute> attributes, int number, void* value,
                    std::size_t bytes, std::size_t* written) {
  const Attribute* attribute = Find(attributes, number);
  if (object == nullptr || attribute == nullptr || (bytes == 0 && written == nullptr)) return kInvalidValue;
  if (written != nullptr) *written = attribute->bytes;
  if (bytes == 0) return kSuccess;
  if (value == nullptr || bytes < attribute->bytes) return kInvalidValue;
  std::memcpy(value, static_cast<const char*>(object) + attribute->offset, attribute->bytes);
  return kSuccess;
}

}  // namespace cuheap::simblas

using namespace cuheap::simblas;  // NOLINT(google-build-using-namespace): the file is about nothing else

// What every kind of descriptor has.
#define SIMCUDA_BLAS_DESCRIPTOR(name, Type, attributes)                                                       \
  SIMCUDA_BLAS_EXPORT int name##Destroy(Type* object) { return Destroy(object); }                             \
  SIMCUDA_BLAS_EXPORT int name##SetAttribute(Type* object, int number, const void* from, std::size_t bytes) { \
    return SetAttribute(object, attributes, number, from, bytes);                                             \
  }                                                                                                           \
  SIMCUDA_BLAS_EXPORT int name##GetAttribute(const Type* object, int number, void* to, std::size_t bytes,     \
                                             std::size_t* written) {                                          \
    return GetAttribute(object, attributes, number, to, bytes, written);                                      \
  }

SIMCUDA_BLAS_DESCRIPTOR(cublasLtMatrixLayout, MatrixLayout, kLayoutAttributes)
SIMCUDA_BLAS_DESCRIPTOR(cublasLtMatmulDesc, MatmulDescription, kMatmulAttributes)
SIMCUDA_BLAS_DESCRIPTOR(cublasLtMatmulPreference, MatmulPreference, kPreferenceAttributes)
SIMCUDA_BLAS_DESCRIPTOR(cublasLtMatrixTransformDesc, TransformDescription, kTransformAttributes)
SIMCUDA_BLAS_DESCRIPTOR(cublasLtEmulationDesc, EmulationDescription, kEmulationAttributes)

SIMCUDA_BLAS_EXPORT int cublasLtMatrixLayoutCreate(MatrixLayout** layout, int type, std::uint64_t rows,
                                                   std::uint64_t columns, std::int64_t leading_dimension) {
  return Create(layout, Layout(type, rows, columns, leading_dimension));
}

SIMCUDA_BLAS_EXPORT int cublasLtMatrixLayoutInit_internal(MatrixLayout* layout, std::size_t bytes, int type,
                                                          std::uint64_t rows, std::uint64_t columns,
                                                          std::int64_t leading_dimension) {
  return Initialise(layout, bytes, Layout(type, rows, columns, leading_dimension));
}

SIMCUDA_BLAS_EXPORT int cublasLtGroupedMatrixLayoutCreate(MatrixLayout** layout, int type, int groups, const void* rows,
                                                          const void* columns, const void* leading_dimensions) {
  return Create(layout, GroupedLayout(type, groups, rows, columns, leading_dimensions));
}

SIMCUDA_BLAS_EXPORT int cublasLtGroupedMatrixLayoutInit_internal(MatrixLayout* layout, std::size_t bytes, int type,
                                                                 int groups, const void* rows, const void* columns,
                                                                 const void* leading_dimensions) {
  return Initialise(layout, bytes, GroupedLayout(type, groups, rows, columns, leading_dimensions));
}

SIMCUDA_BLAS_EXPORT int cublasLtMatmulDescCreate(MatmulDescription** description, int compute_type, int scale_type) {
  return Create(description, Matmul(compute_type, scale_type));
}

SIMCUDA_BLAS_EXPORT int cublasLtMatmulDescInit_internal(MatmulDescription* description, std::size_t bytes,
                                                        int compute_type, int scale_type) {
  return Initialise(description, bytes, Matmul(compute_type, scale_type));
}

SIMCUDA_BLAS_EXPORT int cublasLtMatmulPreferenceCreate(MatmulPreference** preference) {
  return Create(preference, Preference());
}

SIMCUDA_BLAS_EXPORT int cublasLtMatmulPreferenceInit_internal(MatmulPreference* preference, std::size_t bytes) {
  return Initialise(preference, bytes, Preference());
}

SIMCUDA_BLAS_EXPORT int cublasLtMatrixTransformDescCreate(TransformDescription** description, int scale_type) {
  return Create(description, TransformDescription{scale_type, 0, 0, 0});
}

SIMCUDA_BLAS_EXPORT int cublasLtMatrixTransformDescInit_internal(TransformDescription* description, std::size_t bytes,
                                                                 int scale_type) {
  return Initialise(description, bytes, TransformDescription{scale_type, 0, 0, 0});
}

SIMCUDA_BLAS_EXPORT int cublasLtEmulationDescCreate(EmulationDescription** description) {
  return Create(description, Emulation());
}

SIMCUDA_BLAS_EXPORT int cublasLtEmulationDescInit_internal(EmulationDescription* description, std::size_t bytes) {
  return Initialise(description, bytes, Emulation());
}
