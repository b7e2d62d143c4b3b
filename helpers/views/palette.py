"""The colours of the Okabe-Ito palette, chosen so that neighbouring states also differ in grey."""

INK = "#222222"
PAPER = "#FFFFFF"
GREY = "#767676"
LIGHT_GREY = "#DADADA"
BLUE = "#0072B2"
SKY = "#56B4E9"
GREEN = "#009E73"
ORANGE = "#E69F00"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"

# One colour a status, the same in the table and in the timeline.
STATUS = {"pending": LIGHT_GREY, "processing": BLUE, "completed": GREEN, "failed": VERMILLION}
LEASE = "#D3ECFA"  # SKY at a quarter of its strength on white, stated as one colour so that nothing shines through

# The marks differ in shape first (a name of matplotlib's), and in colour only besides.
ICONS = {
    "claimed": (">", BLUE),
    "claimed_too": (">", ORANGE),
    "taken_over": ("D", BLUE),
    "taken_over_early": ("D", VERMILLION),
    "effect": ("*", INK),
    "completed": ("o", GREEN),
    "completed_again": ("8", VERMILLION),
    "completed_other": ("8", VERMILLION),
    "refused": ("s", VERMILLION),
    "refused_renewal": ("s", VERMILLION),
    "crashed": ("X", VERMILLION),
    "killed": ("x", VERMILLION),
    "ended": ("1", VERMILLION),
    "frozen": ("H", SKY),
    "woken": ("^", ORANGE),
    "lease_ended": ("|", INK),
    "lease_ends": ("|", GREY),
    "renewed": ("+", BLUE),
    "lease_moved": ("+", PURPLE),
    "returned": ("<", BLUE),
    "failed": ("v", VERMILLION),
    "retry": ("<", BLUE),
    "gave_up": ("P", VERMILLION),
    "gave_up_other": ("P", VERMILLION),
    "asked_to_stop": ("2", ORANGE),
    "set_back": ("p", PURPLE),
    "requeued": ("p", PURPLE),
    "set_status": ("p", PURPLE),
    "deleted": ("d", PURPLE),
}
