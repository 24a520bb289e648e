// Every number of the USB transport: names on the bus, sizes, and first of all the timers.
//
// Timers                            value   who waits, and what happens when it ends
//   kEnableGraceNs                  10 s    device: endpoint errors mean "not ready yet" until a
//                                           transfer was ever completed; then the cable is gone
//   kEnablePollNs                   10 ms   device: between two looks at a controller not ready
//   kOffBusNs                       0.5 s   device: between unbinding and binding again
//   kCloseFlushNs                   0.5 s   device, close: queued writes may still leave
//   kCloseAbortNs                   2 s     device, close: aborted writes come back after unbinding
//   kCloseJoinNs                    1 s     device, close: reader thread ends; else it is left
//   alone kWriteStallNs                   2 s     host: a write that moved no byte ends the session
//   kQuietNs                        5 s     host: after a broken stream bytes are dropped until the
//                                           line was quiet this long
//   kDrainLimitNs                   30 s    host: ... but never longer than this in all
//   kPresencePollNs                 0.5 s   host: looks for devices
//   kOpenRetryNs                    2 s     host: after an open that failed
//   kFirstWordNs                    5 s     host: an opened device that says nothing is closed
//   kSilentRetryNs x kSilentRetries 0.5 s x 5, then kSilentRetryLongNs 2 s: host, after an open
//   that
//                                           never heard a byte; one that did is opened again at
//                                           once
//   kPowerBackNs                    30 s    host: silence after which link power saving comes back
//   kHostCloseNs                    1 s     host, close: cancelled transfers come back
//   kEventSliceNs                   0.1 s   both: longest sleep of an own thread between two looks
#pragma once
#include <cstddef>
#include <cstdint>

namespace outrider::link::usb {

inline constexpr int64_t kMillisecond = 1'000'000;
inline constexpr int64_t kSecond = 1'000'000'000;

inline constexpr int64_t kEnableGraceNs = 10 * kSecond;
inline constexpr int64_t kEnablePollNs = 10 * kMillisecond;
inline constexpr int64_t kOffBusNs = 500 * kMillisecond;
inline constexpr int64_t kCloseFlushNs = 500 * kMillisecond;
inline constexpr int64_t kCloseAbortNs = 2 * kSecond;
inline constexpr int64_t kCloseJoinNs = 1 * kSecond;
inline constexpr int64_t kWriteStallNs = 2 * kSecond;
inline constexpr int64_t kQuietNs = 5 * kSecond;
inline constexpr int64_t kDrainLimitNs = 30 * kSecond;
inline constexpr int64_t kPresencePollNs = 500 * kMillisecond;
inline constexpr int64_t kOpenRetryNs = 2 * kSecond;
inline constexpr int64_t kFirstWordNs = 5 * kSecond;
inline constexpr int64_t kSilentRetryNs = 500 * kMillisecond;
inline constexpr int64_t kSilentRetryLongNs = 2 * kSecond;
inline constexpr uint32_t kSilentRetries = 5;
inline constexpr int64_t kPowerBackNs = 30 * kSecond;
inline constexpr int64_t kHostCloseNs = 1 * kSecond;
inline constexpr int64_t kEventSliceNs = 100 * kMillisecond;

// Nothing that the device sends may end on a short packet (a controller was seen to flush its
// buffer about once in 400 frames when it did): it sends multiples of this, and the host reads in
// pieces of this, so that no read ever holds the end of one message while it waits for the next.
inline constexpr uint32_t kGridBytes = 16 * 1024;

// Device. 8 KiB is the largest request that the kernel serves without looking for whole pages: 16
// and 32 KiB were seen to stall 24 and 94 ms while memory was compacted.
inline constexpr uint32_t kWriteRequestBytes = 8 * 1024;
inline constexpr uint32_t kUnsentLimitBytes = 1024 * 1024;  // one frame queued behind one frame
inline constexpr uint32_t kWriteRequests = kUnsentLimitBytes / kWriteRequestBytes;
inline constexpr uint32_t kDeviceReadBytes = 16 * 1024;
inline constexpr uint32_t kDeviceReadSlots = 32;  // 512 KiB, all of it taken when a stream is made
inline constexpr int kReaderPriority = 51;        // SCHED_FIFO, when this process may

// Host.
inline constexpr uint32_t kHostReadSlots = 32;
inline constexpr uint32_t kHostWriteBytes = 1024 * 1024;  // a message of up to this is one transfer
inline constexpr uint32_t kHostWriteSlots = 2;

static_assert(kGridBytes % kWriteRequestBytes == 0);
static_assert(kGridBytes % 1024 == 0, "every speed's packet divides the grid");
static_assert(kUnsentLimitBytes % kGridBytes == 0);
static_assert(kHostWriteBytes % 1024 == 0, "no short packet inside a message");

// Names on the bus. 1209 is pid.codes' vendor number; 0001 to 0010 there are for tests and
// private use and belong to nobody. A product that is sold or given away needs its own pair.
inline constexpr uint16_t kVendorId = 0x1209;
inline constexpr uint16_t kProductId = 0x0005;
inline constexpr uint16_t kUsbRelease = 0x0320;
inline constexpr uint16_t kDeviceRelease = 0x0100;
inline constexpr char kManufacturer[] = "Outrider";
inline constexpr char kProduct[] = "Outrider link";
inline constexpr char kInterfaceName[] = "outrider link";
inline constexpr uint16_t kLanguage = 0x0409;

// The host finds the interface by this triple, never by its number.
inline constexpr uint8_t kInterfaceClass = 0xFF;
inline constexpr uint8_t kInterfaceSubclass = 0x4F;
inline constexpr uint8_t kInterfaceProtocol = 0x55;

// What we ask for; the gadget stack renumbers, so the host reads the addresses.
inline constexpr uint8_t kAskedOut = 0x01;
inline constexpr uint8_t kAskedIn = 0x82;

}  // namespace outrider::link::usb
