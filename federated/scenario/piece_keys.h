// Keys of registered pieces: a section's key that chooses a piece, and the options of every selectable piece. A new
// piece defines its options, ranges and meanings in its table (federated/settings/setting_tables.h). An option's key
// names the pieces that have it and their differences.
//
// Tables are read at the first use of Keys(). A check fails if two pieces of a kind give an option of one name
// different types.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "federated/scenario/keys.h"

namespace rivulet::scenario {

// Keys for all options of the pieces of this kind, and of pieces that an option chooses, as defined in each piece's
// table.
std::vector<Key> OptionKeys(const PieceChoice& choice);

// `"adam", "adamw" or "yogi"`.
std::string AnyOf(const std::vector<std::string>& names);

// "`iid`: shuffles and deals. `eden1` and `eden2`: …": one sentence for each distinct doc of the kind's pieces.
std::string PiecesInWords(std::string_view kind);

}  // namespace rivulet::scenario
