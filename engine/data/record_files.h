// Record files that match a pattern, opened as one data set: one file, or the shards of a set.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/data/dataset.h"

namespace rivulet {

// The files that match a shell pattern ("part-*.tfrecord"), in byte order of their names in any locale, without their
// indices (record_index.h). A file with exactly this name matches alone. NOT_FOUND: no match.
StatusOr<std::vector<std::string>> RecordFilesMatching(const std::string& pattern);
bool IsFilePattern(const std::string& path);  // has wildcard characters

// Opens their records, in the order of files. Errors as Dataset::Open.
StatusOr<std::shared_ptr<const Dataset>> OpenRecordsMatching(const std::string& pattern);

}  // namespace rivulet
