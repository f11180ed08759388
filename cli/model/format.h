// Formats of `rivulet model export --format` and `rivulet model import`. A format is a file of this folder
// (format_NAME.cc) that registers itself; no list names it.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "inspect/model_source.h"

namespace rivulet {

struct ExportRequest {
  const ModelSource& source;
  std::string out;             // a path
  bool external_data = false;  // weights in a separate file, for formats that support both
  bool json = false;           // print JSON
};

struct ImportRequest {
  std::string file;
  std::string out;                  // a folder or a file, by the format
  std::vector<std::string> shapes;  // "NAME=SIZES", of inputs; empty for formats without inputs
  std::vector<std::string> values;  // "NAME=NUMBERS", of inputs that become constants; likewise
  std::string like;                 // of an adapter: the scenario or run whose model it belongs to
  bool json = false;
};

struct ModelFormat {
  std::string name;                  // "onnx": the value of --format
  std::vector<std::string> endings;  // of file names of this format: ".onnx"
  std::string doc;                   // the content of such a file, as part of a sentence
  std::string container = {};        // the format whose endings its files may also have: "safetensors"
  bool weights_alone = false;        // it needs no graph
  // Write or read one file and print one record about it. nullptr: this format cannot be written, or not read.
  Status (*write)(const ExportRequest& request) = nullptr;
  Status (*read)(const ImportRequest& request) = nullptr;
};

struct RegisterModelFormat {
  explicit RegisterModelFormat(ModelFormat format);
};

const std::vector<ModelFormat>& ModelFormats();  // by name
// The format called `name`. If `name` is empty, the one with the ending of `path`, or "peft" for a folder with an
// adapter_config.json. Usage errors list the known formats: an unknown name or ending, an ending of another
// format than `name`, and PyTorch's pickles, which are neither written nor read because opening a pickle runs
// code.
StatusOr<const ModelFormat*> FindModelFormat(const std::string& name, const std::string& path);

}  // namespace rivulet
