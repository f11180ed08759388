#include "engine/kernels/cpu/product/dnnl_product.h"

#include "engine/kernels/cpu/product/dnnl_primitives.h"

namespace rivulet {

std::optional<Prepared> DnnlMatMul(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b,
                                   DType dtype) try {
  if (m == 0 || n == 0 || k == 0) return std::nullopt;
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16) return std::nullopt;
  const onednn::Type type = onednn::TypeOf(dtype);
  const dnnl::memory::desc a({m, k}, type, transpose_a ? onednn::Tag::ba : onednn::Tag::ab),
      b({k, n}, type, transpose_b ? onednn::Tag::ba : onednn::Tag::ab);
  const dnnl::memory::desc c({m, n}, type, onednn::Tag::ab);
  onednn::Builder builder;
  const dnnl::matmul::primitive_desc descriptor(dnnl::matmul::desc(a, b, c), builder.attributes(), onednn::Engine());
  if (onednn::IsSlow(descriptor.impl_info_str(), dtype)) return std::nullopt;
  const size_t left = builder.Input(0, a), right = builder.Input(1, b), result = builder.Output(0, c);
  builder.Execute<dnnl::matmul>(descriptor, {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, result}});
  return std::move(builder).Build(descriptor.impl_info_str(),
                                  2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
} catch (const dnnl::error&) {
  return std::nullopt;
}

}  // namespace rivulet
