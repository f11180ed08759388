// cuDNN, opened when it is first asked for: its backend API and what owns its descriptors.
#pragma once

#include <cudnn_backend.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/gpu/cuda/toolkit_libraries.h"
#include "engine/kernels/cuda_libraries/shared_object.h"

namespace rivulet::gpu {

struct Cudnn {
  decltype(&cudnnCreate) create;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnBackendCreateDescriptor) descriptor_create;
  decltype(&cudnnBackendDestroyDescriptor) descriptor_destroy;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendSetAttribute) set;
  decltype(&cudnnBackendGetAttribute) get;
  decltype(&cudnnBackendExecute) execute;
};

// Null where the library is not.
inline const Cudnn* OpenCudnn() {
  static const Cudnn* const opened = []() -> const Cudnn* {
    static Cudnn f;
    void* const library = OpenSharedObject(kCudnnLibrary);
    const bool whole = TakeFunction(library, "cudnnCreate", f.create) &&
                       TakeFunction(library, "cudnnSetStream", f.set_stream) &&
                       TakeFunction(library, "cudnnBackendCreateDescriptor", f.descriptor_create) &&
                       TakeFunction(library, "cudnnBackendDestroyDescriptor", f.descriptor_destroy) &&
                       TakeFunction(library, "cudnnBackendFinalize", f.finalize) &&
                       TakeFunction(library, "cudnnBackendSetAttribute", f.set) &&
                       TakeFunction(library, "cudnnBackendGetAttribute", f.get) &&
                       TakeFunction(library, "cudnnBackendExecute", f.execute);
    return whole ? &f : nullptr;
  }();
  return opened;
}

// One descriptor; what fails is remembered, and makes all that follows fail.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const Cudnn& cudnn, cudnnBackendDescriptorType_t type) : cudnn_(&cudnn) {
    good_ = cudnn.descriptor_create(type, &descriptor_) == CUDNN_STATUS_SUCCESS;
  }
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : cudnn_(other.cudnn_), descriptor_(std::exchange(other.descriptor_, nullptr)), good_(other.good_) {}
  CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;
  ~CudnnDescriptor() {
    if (descriptor_ != nullptr) cudnn_->descriptor_destroy(descriptor_);
  }
  cudnnBackendDescriptor_t raw() const { return descriptor_; }
  bool good() const { return good_; }

  template <typename Value>
  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<Value>& values) {
    good_ = good_ && cudnn_->set(descriptor_, name, type, static_cast<int64_t>(values.size()), values.data()) ==
                         CUDNN_STATUS_SUCCESS;
  }
  void Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other) {
    good_ = good_ && other.good_;
    Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<cudnnBackendDescriptor_t>{other.descriptor_});
  }
  void Finalize() { good_ = good_ && cudnn_->finalize(descriptor_) == CUDNN_STATUS_SUCCESS; }

 private:
  const Cudnn* cudnn_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  bool good_ = false;
};

}  // namespace rivulet::gpu
