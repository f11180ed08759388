// Options of gRPC that both ends of a connection must agree on, and limits of every server.
//
// A client trains for minutes without a call. Its pings keep the connection open through firewalls and distinguish a
// dead peer from a silent one. A server closes the connection if it finds them too frequent, so both periods are
// defined here.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "engine/base/status.h"

namespace rivulet {

inline constexpr int kPingEveryMs = 30'000;          // each end pings the other
inline constexpr int kPingTimeoutMs = 20'000;        // no answer: the connection is lost
inline constexpr int kPingsAllowedEveryMs = 10'000;  // a server's tolerance: well below kPingEveryMs
inline constexpr int kMaxMessageBytes = 1 << 20;     // the payload of a stream's message, with its head
// How far a stream may be sent ahead of its reader; limits an upload's memory in a server.
inline constexpr int kStreamWindowBytes = 512 << 10;
// The size of a frame of a message: each frame has a head, and received data is cut at it. HTTP/2's default of 16 KiB
// costs both ends more.
inline constexpr int kFrameBytes = 128 << 10;
// The read size of a connection. The buffer stays allocated while the connection is idle: a client has one connection,
// a server thousands. Smaller sizes cost a server that reads an upload: against 32 KiB, 16 take a twentieth of the time
// more, and 8 a quarter.
inline constexpr int kClientReadBytes = 64 << 10;
inline constexpr int kServerReadBytes = 16 << 10;
inline constexpr int kMaxStreamsOfAConnection = 64;  // calls beyond it wait at the client

// Works for ServerBuilder::AddChannelArgument and grpc::ChannelArguments::SetInt alike.
template <typename SetInt>
void SetCommonArguments(SetInt set) {
  set(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // no limit
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingsAllowedEveryMs);
  set(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kMaxMessageBytes);
  set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  // gRPC unpacks a compressed message before it checks its length: 800 KB may become 800 MB. This system sends none;
  // chunks packed by zstd are unpacked within their bound (rpc/zstd_frame.h).
  set(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1);
  set(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

// Call it before gRPC is used. gRPC's own log lines to stderr are suppressed, because errors are reported as a Status;
// GRPC_VERBOSITY in the environment restores them. It also disables Debian Abseil's graph of held locks, which helps to
// find deadlocks in gRPC, but costs a twentieth of a transfer's time.
void PrepareGrpc();

// Call it before the first call with a callback. The threads that run callbacks end with the last channel that had such
// a call. If a callback is the last owner of that channel, gRPC frees the queue that its own thread reads: "double free
// or corruption". After this call the threads stay until the process ends.
void KeepCallbackThreads();

// gRPC creates threads and descriptors when it needs them. If a thread is refused, it waits forever, even at its end;
// if a descriptor is refused, it aborts. So this checks the system first. RESOURCE_EXHAUSTED: the system gives fewer
// than gRPC may need; the message names the limit to raise.
Status CheckRoomForGrpc();

// Codes are the same numbers on both sides. Messages travel in a header of limited size, as printable text.
grpc::Status ToGrpc(const Status& status);

}  // namespace rivulet
