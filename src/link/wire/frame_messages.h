// The verbs of a runtime: inputs, runs, outputs.
#pragma once
#include "link/wire/session_messages.h"

namespace outrider::link::wire {

struct View {
  uint32_t struct_size = 0, pixel_format = 0;
  uint64_t bytes = 0, timestamp_ns = 0;
  int32_t width = 0, height = 0, stride_bytes = 0;
  uint32_t sent_bytes = 0;
  uint8_t has_data = 0;
  static constexpr auto wire_table() {
    return record(field<&View::struct_size>("struct_size", "as in the caller's view"),
                  field<&View::pixel_format>("pixel_format", "as in the caller's view"),
                  field<&View::bytes>("bytes", "of the picture as it is sent"),
                  field<&View::timestamp_ns>("timestamp_ns", "as in the caller's view"),
                  field<&View::width>("width", "as in the caller's view"),
                  field<&View::height>("height", "as in the caller's view"),
                  field<&View::stride_bytes>("stride_bytes", "of the picture as it is sent"),
                  field<&View::sent_bytes>("sent_bytes", "its part of the payload",
                                           {.max = kMaxPayloadBytes}),
                  field<&View::has_data>("has_data", "0: the caller's view has no usable picture",
                                         {.max = 1}));
  }
  bool operator==(const View&) const = default;
};

enum class InputForm : uint8_t { kBytes, kViews, kNothing };

struct Input {
  uint32_t port = 0;
  uint8_t form = 0;
  uint64_t bytes = 0;
  FixedList<View, kMaxViews> views;
  static constexpr auto wire_table() {
    return table(
        {"INPUT", 5, Sender::kDevice, Priority::kFrame, kMaxPayloadBytes,
         "One set_input. The payload is read straight into the port's place on the host; a newer "
         "one for the same port replaces one that still waits there. With flag 2 the host answers "
         "ANSWER at once; without it a refusal comes as FAULT and fails the next RUN."},
        field<&Input::port>("port", "index, also of a port that does not exist"),
        field<&Input::form>("form",
                            "0 the payload is the data; 1 the views below and their pictures one "
                            "behind the other; 2 the caller gave no usable data: the host makes "
                            "the same refused call",
                            {.max = 2}),
        field<&Input::bytes>("bytes", "as in the call"), field<&Input::views>("views", "form 1"));
  }
  bool operator==(const Input&) const = default;
};

struct Answer {
  int32_t code = 0;
  Line text;
  static constexpr auto wire_table() {
    return table({"ANSWER", 6, Sender::kHost, Priority::kFrame, 0, "What a verb returned."},
                 field<&Answer::code>("code", "ABI status of the runtime"),
                 field<&Answer::text>("text", "its last_error after a failure"));
  }
  bool operator==(const Answer&) const = default;
};

struct Run {
  uint8_t kind = 0;
  uint32_t executor_ref = 0;
  uint64_t budget_ns = 0, push = 0;
  uint32_t n_inputs = 0;
  static constexpr auto wire_table() {
    return table(
        {"RUN", 7, Sender::kDevice, Priority::kFrame, 0, "Runs one stage or the whole request."},
        field<&Run::kind>("kind", "0 one stage, 1 step", {.max = 1}),
        field<&Run::executor_ref>("executor_ref", "of the stage, as published"),
        field<&Run::budget_ns>("budget_ns",
                               "the device waits so long; a run that has not begun by then is "
                               "dropped; 0: no limit"),
        field<&Run::push>("push", "bit p: send output port p with the reply when it is ready"),
        field<&Run::n_inputs>("n_inputs",
                              "INPUT messages the device sent in this epoch; fewer on the host "
                              "means that one was lost, and the run is refused"));
  }
  bool operator==(const Run&) const = default;
};

struct Pushed {
  uint32_t port = 0, bytes = 0;
  static constexpr auto wire_table() {
    return record(
        field<&Pushed::port>("port", "index"),
        field<&Pushed::bytes>("bytes", "its part of the payload", {.max = kMaxPayloadBytes}));
  }
  bool operator==(const Pushed&) const = default;
};

struct RunReply {
  int32_t code = 0;
  Line text;
  int64_t received_ns = 0, started_ns = 0, ended_ns = 0;
  uint32_t n_replaced = 0;
  FixedList<Pushed, kMaxPushPorts> outputs;
  static constexpr auto wire_table() {
    return table({"RUN_REPLY", 8, Sender::kHost, Priority::kFrame, kMaxPayloadBytes,
                  "The end of a run, with the outputs that were asked for one behind the other."},
                 field<&RunReply::code>("code", "ABI status of the runtime"),
                 field<&RunReply::text>("text", "its last_error after a failure"),
                 field<&RunReply::received_ns>("received_ns", "when RUN came, host clock"),
                 field<&RunReply::started_ns>("started_ns", "when the runtime began, host clock"),
                 field<&RunReply::ended_ns>("ended_ns", "when it ended, host clock"),
                 field<&RunReply::n_replaced>(
                     "n_replaced", "inputs of this epoch that a newer one replaced in the queue"),
                 field<&RunReply::outputs>("outputs", "what the payload holds, in order"));
  }
  bool operator==(const RunReply&) const = default;
};

struct Read {
  uint32_t port = 0;
  uint64_t capacity = 0;
  uint8_t null_out = 0, null_written = 0;
  static constexpr auto wire_table() {
    return table(
        {"READ", 9, Sender::kDevice, Priority::kFrame, 0, "One get_output that was not pushed."},
        field<&Read::port>("port", "index, also of a port that does not exist"),
        field<&Read::capacity>("capacity", "as in the call"),
        field<&Read::null_out>("null_out", "1: out was NULL", {.max = 1}),
        field<&Read::null_written>("null_written", "1: written was NULL", {.max = 1}));
  }
  bool operator==(const Read&) const = default;
};

struct ReadReply {
  int32_t code = 0;
  uint64_t written = 0;
  Line text;
  static constexpr auto wire_table() {
    return table({"READ_REPLY", 10, Sender::kHost, Priority::kFrame, kMaxPayloadBytes,
                  "What get_output returned; the payload is the output."},
                 field<&ReadReply::code>("code", "ABI status of the runtime"),
                 field<&ReadReply::written>("written", "as the runtime set it"),
                 field<&ReadReply::text>("text", "its last_error after a failure"));
  }
  bool operator==(const ReadReply&) const = default;
};

struct Prepare {
  uint32_t graph = 0;
  uint64_t key = 0;
  static constexpr auto wire_table() {
    return table({"PREPARE", 11, Sender::kDevice, Priority::kControl, 0,
                  "The verb of that name; answered with ANSWER."},
                 field<&Prepare::graph>("graph", "as in the call"),
                 field<&Prepare::key>("key", "as in the call"));
  }
  bool operator==(const Prepare&) const = default;
};

}  // namespace outrider::link::wire
