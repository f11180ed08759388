// Record files that match a pattern, opened as one data set: one file, or the shards of a set.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/data/dataset.h"

namespace rivulet {

// The files that match, as a shell has it ("part-*.tfrecord"), in byte order of their names whatever the locale;
// indices beside them (record_index.h) are none. A file of the very name stands for itself. NOT_FOUND: there is none.
StatusOr<std::vector<std::string>> RecordFilesMatching(const std::string& pattern);
bool IsFilePattern(const std::string& path);  // has characters that stand for others

// Their records, those of the first file first. Errors as Dataset::Open.
StatusOr<std::shared_ptr<const Dataset>> OpenRecordsMatching(const std::string& pattern);

}  // namespace rivulet
