// cuBLASLt, opened at first use: the functions for products.
#pragma once

#include <cublasLt.h>

#include "engine/gpu/cuda/toolkit_libraries.h"
#include "engine/kernels/cuda_libraries/shared_object.h"

namespace rivulet::gpu {

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoInit) algo_init;
  decltype(&cublasLtMatmulAlgoConfigSetAttribute) config_set;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) config_get;
  decltype(&cublasLtMatmulAlgoCapGetAttribute) cap_get;
};

// Null if the library is missing, or older than required.
inline const CublasLt* OpenCublasLt() {
  static const CublasLt* const opened = []() -> const CublasLt* {
    static CublasLt f;
    void* const library = OpenSharedObject(kCublasLtLibrary);
    const bool whole = TakeFunction(library, "cublasLtCreate", f.create) &&
                       TakeFunction(library, "cublasLtMatmul", f.matmul) &&
                       TakeFunction(library, "cublasLtMatmulDescCreate", f.desc_create) &&
                       TakeFunction(library, "cublasLtMatmulDescDestroy", f.desc_destroy) &&
                       TakeFunction(library, "cublasLtMatmulDescSetAttribute", f.desc_set) &&
                       TakeFunction(library, "cublasLtMatrixLayoutCreate", f.layout_create) &&
                       TakeFunction(library, "cublasLtMatrixLayoutDestroy", f.layout_destroy) &&
                       TakeFunction(library, "cublasLtMatrixLayoutSetAttribute", f.layout_set) &&
                       TakeFunction(library, "cublasLtMatmulPreferenceCreate", f.preference_create) &&
                       TakeFunction(library, "cublasLtMatmulPreferenceDestroy", f.preference_destroy) &&
                       TakeFunction(library, "cublasLtMatmulPreferenceSetAttribute", f.preference_set) &&
                       TakeFunction(library, "cublasLtMatmulAlgoGetHeuristic", f.heuristic) &&
                       TakeFunction(library, "cublasLtMatmulAlgoInit", f.algo_init) &&
                       TakeFunction(library, "cublasLtMatmulAlgoConfigSetAttribute", f.config_set) &&
                       TakeFunction(library, "cublasLtMatmulAlgoConfigGetAttribute", f.config_get) &&
                       TakeFunction(library, "cublasLtMatmulAlgoCapGetAttribute", f.cap_get);
    return whole ? &f : nullptr;
  }();
  return opened;
}

}  // namespace rivulet::gpu
