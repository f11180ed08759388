// A base: the tensors of a model that no task changes. Its files are memory-mapped, and versions hold no copy of them.
//
// A base is one safetensors file, or a folder with several and Hugging Face's `model.safetensors.index.json`. Its
// Its digest is SHA-256 over a label and the tensors in byte order of their names, each as in model_digest: name, type,
// shape and data. So it depends neither on the metadata nor on the division of tensors over files.
//
// A base is sent as one safetensors file that depends on its tensors alone: in the order of their names, each at a
// multiple of 64 bytes. Gaps are filled by byte tensors with names that begin with "rivulet.padding."; every reader of
// a base skips them.
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

// Immutable, thread-safe. Holds its files open for reading: replacing a file by another of the same name does not
// change an open base.
class Base {
 public:
  struct Tensor {
    std::string name;
    TensorSpec spec;
    size_t file = 0;     // index of the base's file that has it
    uint64_t begin = 0;  // offset of its data in that file
    uint64_t bytes = 0;
  };

  // Opens a base and reads every byte once, for the digest. `path`: a safetensors file, a folder with
  // `model.safetensors.index.json` or `model.safetensors`, or such an index. NOT_FOUND: no file. DATA_LOSS: a file or
  // the index is damaged, or the index lists a tensor that is missing. INVALID_ARGUMENT: no tensor. Errors name files.
  static StatusOr<std::shared_ptr<const Base>> Open(const std::string& path);
  Base(const Base&) = delete;
  Base& operator=(const Base&) = delete;

  const std::string& path() const { return path_; }
  const Digest& digest() const { return digest_; }
  std::span<const Tensor> tensors() const { return tensors_; }  // in the order of their names
  const Tensor* Find(std::string_view name) const;              // nullptr if there is none
  // Copies the data of a tensor; `out` has its length. DATA_LOSS: a file shrank, or the disk failed.
  Status Copy(const Tensor& tensor, std::span<std::byte> out) const;

  // The same data in the mapping, for programs that read them in place (base_values.h). Reads are unguarded: if a file
  // is truncated in place, the process that reads it is killed.
  const std::byte* Mapped(const Tensor& tensor) const { return files_[tensor.file]->unguarded() + tensor.begin; }

  // Size of the file in which the base is sent.
  int64_t travel_bytes() const { return travel_bytes_; }
  // Reads its bytes from `offset` on, which must be within travel_bytes(). DATA_LOSS: as Copy.
  Status ReadTravelling(int64_t offset, std::span<std::byte> out) const;

 private:
  // A piece of the file in which the base is sent: header, tensor data, or zeros.
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

// OK if `base` has the digest. FAILED_PRECONDITION otherwise; the message names both digests and the file.
Status CheckIsBase(const Base& base, const Digest& wanted);

}  // namespace rivulet
