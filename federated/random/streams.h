// Random streams by purpose and client. Every draw comes from Philox4x32-10 with a key from (seed, client_id). The
// counter consists of purpose, operation, base round and the ordinal of this client's lease at that base version; see
// engine/base/philox.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/base/draws.h"
#include "engine/base/philox.h"

namespace rivulet {

enum class Purpose : uint8_t {
  kInitialise = 1,  // the initial model; client_id ""
  kSelect = 2,      // the cohort; client_id ""
  kShuffle = 3,     // order of examples; op = epoch
  kGraph = 4,       // random ops of a training step; op = index of the random op
  kPartition = 5,   // division of a data set into clients; client_id ""
  kSynthesize = 6,  // generated data
  kNoise = 7,       // noise on an update; op = index of the mechanism
  kEncode = 8,      // encoding of an update; op = index of the part
  kWork = 9,        // amount of a task's work
  kAttack = 16,     // choice of attackers in a simulation (client_id ""), and their own draws
  kDevice = 17,     // a simulation's virtual time: properties of devices, and durations of tasks
};

// The first 8 bytes of SHA-256(seed as u64 little-endian ‖ client_id), as two little-endian words.
PhiloxKey KeyFor(uint64_t seed, std::string_view client_id);
// The same key as one number, word 0 in its low half. A task contains it, so that a client learns its own key and never
// the seed, which gives the keys of all clients.
uint64_t ClientKey(uint64_t seed, std::string_view client_id);

// The same purpose for another kind of task: 5 bits for the purpose, 3 for the kind (0: training). So draws of one kind
// never affect those of another.
constexpr Purpose OfKind(Purpose purpose, uint8_t kind) {
  return static_cast<Purpose>(static_cast<uint8_t>(purpose) | kind << 5);
}

StreamKey StreamFor(uint64_t client_key, Purpose purpose, uint32_t round = 0, uint16_t ordinal = 0);
StreamKey StreamFor(uint64_t seed, std::string_view client_id, Purpose purpose, uint32_t round = 0,
                    uint16_t ordinal = 0);

}  // namespace rivulet
