// A base: the tensors of a model that no task changes. Its files are mapped, and no version has a copy of them.
//
// A base is one safetensors file, or a folder with several and Hugging Face's `model.safetensors.index.json`. Its
// digest is SHA-256 over a label and the tensors in the order of their names' bytes, each as in model_digest: name,
// type, shape and data. So it depends neither on the metadata nor on how tensors are spread over files.
//
// A base travels as one safetensors file, which follows from its tensors alone: in the order of their names, each at a
// multiple of 64 bytes. Between tensors that need it there are tensors of bytes with names that begin with
// "rivulet.padding."; every reader of a base passes over them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/io/mapped_file.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// Immutable, thread-safe. Holds its files open for reading: a file that is replaced by another of its name does not
// change a base that is open.
class Base {
 public:
  struct Tensor {
    std::string name;
    TensorSpec spec;
    size_t file = 0;     // which of the base's files has it
    uint64_t begin = 0;  // where its data are in that file
    uint64_t bytes = 0;
  };

  // Reads every byte once, for the digest. `path`: a safetensors file, a folder with `model.safetensors.index.json` or
  // `model.safetensors`, or such an index. NOT_FOUND: there is none. DATA_LOSS: a file, or the index, is damaged or
  // names a tensor that its file does not have. INVALID_ARGUMENT: it has no tensor. Messages name the file.
  static StatusOr<std::shared_ptr<const Base>> Open(const std::string& path);
  Base(const Base&) = delete;
  Base& operator=(const Base&) = delete;

  const std::string& path() const { return path_; }
  const Digest& digest() const { return digest_; }
  std::span<const Tensor> tensors() const { return tensors_; }  // in the order of their names
  const Tensor* Find(std::string_view name) const;              // nullptr when there is none
  // The data of a tensor; `out` has its length. DATA_LOSS: a file shrank, or the disk failed.
  Status Copy(const Tensor& tensor, std::span<std::byte> out) const;

  // The same data where they are mapped, for programs that read them in place (base_values.h). Without a guard: a file
  // that is truncated in place ends the process that reads it.
  const std::byte* Mapped(const Tensor& tensor) const { return files_[tensor.file]->unguarded() + tensor.begin; }

  // Of the file that it travels as.
  int64_t travel_bytes() const { return travel_bytes_; }
  // Its bytes from `offset` on, which lie within travel_bytes(). DATA_LOSS as Copy.
  Status ReadTravelling(int64_t offset, std::span<std::byte> out) const;

 private:
  // A stretch of the file that it travels as: of the header, of a tensor, or zeros.
  struct Piece {
    int64_t begin = 0;
    const Tensor* tensor = nullptr;
    bool header = false;
  };

  explicit Base(std::string path) : path_(std::move(path)) {}
  Status AddFile(const std::string& path, std::vector<std::string>* names);
  Status AddIndex(const std::string& path);
  Status LayOut();
  Status CopyAt(size_t file, uint64_t offset, std::span<std::byte> out) const;

  const std::string path_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<Tensor> tensors_;
  std::string header_;
  std::vector<Piece> pieces_;
  int64_t travel_bytes_ = 0;
  Digest digest_;
};

// OK where `base` has the digest. FAILED_PRECONDITION otherwise, naming both and the file.
Status CheckIsBase(const Base& base, const Digest& wanted);

}  // namespace rivulet
