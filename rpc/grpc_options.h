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
inline constexpr int kPingsAllowedEveryMs = 10'000;  // what a server tolerates: well below kPingEveryMs
inline constexpr int kMaxMessageBytes = 1 << 20;     // what one message of a stream carries, and its head
// How far ahead of the reader a stream may be sent: bounds what an upload can park in a server's memory.
inline constexpr int kStreamWindowBytes = 512 << 10;
// What one frame of a message carries: each has a head of its own, and what comes is cut at it. 16 KiB, HTTP/2's own
// measure, costs both ends more.
inline constexpr int kFrameBytes = 128 << 10;
// How much is read from a connection at a time. It keeps room for the next time, also while nothing comes: a client has
// one connection, and a server thousands. Less costs a server that reads an upload: beside 32 KiB 16 take a twentieth
// of the time more, and 8 a quarter.
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
  // gRPC unpacks a compressed message before it looks at its length: 800 KB may become 800 MB. Nobody here sends one;
  // chunks that are packed by zstd are unpacked within their bound (rpc/zstd_frame.h).
  set(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1);
  set(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

// Before gRPC is used. It writes its own log lines to stderr; ours say what matters. GRPC_VERBOSITY in the environment
// brings them back. And Debian's Abseil keeps a graph of all locks that are held, which is for who looks for deadlocks
// in gRPC, and costs a twentieth of a transfer's time.
void PrepareGrpc();

// Before the first call with a callback. The threads that run callbacks end with the last channel that had such a call.
// A callback may be what holds that channel last, and gRPC then frees the queue that its own thread reads: "double free
// or corruption". From here on the threads stay until the process ends.
void KeepCallbackThreads();

// gRPC makes threads and descriptors of its own as it goes; refused a thread it waits for it for ever, also at its end,
// and refused a descriptor it aborts. So the system is asked before gRPC is. RESOURCE_EXHAUSTED: it gives fewer than
// gRPC may need; says which limit to raise.
Status CheckRoomForGrpc();

// Codes are the same numbers on both sides. Messages travel in a header of limited size, as text that shows.
grpc::Status ToGrpc(const Status& status);

}  // namespace rivulet
