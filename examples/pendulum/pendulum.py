"""The plant: a pendulum with a motor too weak to lift it at once. The angle is 0 upright.

State (angle, rate), torque -1..1 of MAX_TORQUE, semi-implicit Euler. Works on numbers and on NumPy arrays.
"""
import math

GRAVITY, LENGTH, MASS, FRICTION, MAX_TORQUE = 9.81, 1.0, 1.0, 0.05, 4.0
STEP_S = 0.001


def step(angle, rate, torque, step_s=STEP_S, sin=math.sin):
    force = MAX_TORQUE * torque + MASS * GRAVITY * LENGTH * sin(angle) - FRICTION * rate
    rate = rate + step_s * force / (MASS * LENGTH * LENGTH)
    return angle + step_s * rate, rate
