"""The tasks that come with the package, as their compact prompts tell them. A test compares them with the real ones."""

from __future__ import annotations

from rewardrate.pretraining.corpus.brief import Brief

HELD_OUT = ("elec-demand", "food-reviews", "hotel-rates", "mnist-5k")
"One of each modality: no example of the corpus is about them."


def _split(names: str) -> tuple[str, ...]:
    return tuple(names.split(","))


BRIEFS = (
    Brief(
        "chicago-ridership",
        "Forecast the riders who enter a Chicago station on a day from the riders two weeks before, "
        "the weather and sports events.",
        "series",
        "mean absolute error in thousands of riders (lower is better)",
        4242,
        _split(
            "Austin,Quincy_Wells,Belmont,Archer_35th,Oak_Park,Western,Clark_Lake,Clinton,...,"
            "WhiteSox_Home,Cubs_Away,Cubs_Home"
        ),
        ("date",),
        "ridership",
        ("id", "ridership"),
        "number",
        dates=("date",),
        width=48,
    ),
    Brief(
        "diamonds",
        "Predict the price of a round-cut diamond in US dollars from its weight, grades and measures.",
        "tabular",
        "root mean squared logarithmic error (lower is better)",
        43595,
        _split("carat,depth,table,x,y,z"),
        _split("cut,color,clarity"),
        "price",
        ("id", "price"),
        "number",
    ),
    Brief(
        "digits8x8",
        "Say which digit a picture of 8 x 8 pixels shows.",
        "image",
        "accuracy (higher is better)",
        1257,
        _split("p0,p1,p2,p3,p4,p5,p6,p7,...,p61,p62,p63"),
        (),
        "digit",
        ("id", "digit"),
        "label",
        width=64,
        classes=10,
    ),
    Brief(
        "elec-demand",
        "Forecast the electricity demand of each half-hour of the last eight weeks of 2014 from calendar and "
        "temperature.",
        "series",
        "root mean squared error in gigawatts (lower is better)",
        14832,
        _split("workday,temperature"),
        ("time",),
        "demand",
        ("id", "demand"),
        "number",
        dates=("time",),
    ),
    Brief(
        "flights-delay",
        "Predict the arrival delay of a flight in minutes from what is known when it takes off.",
        "tabular",
        "root mean squared error in minutes (lower is better)",
        295346,
        _split("month,day,sched_dep_time,dep_time,dep_delay,sched_arr_time,flight,distance"),
        _split("carrier,tailnum,origin,dest"),
        "arr_delay",
        ("id", "arr_delay"),
        "number",
    ),
    Brief(
        "food-reviews",
        "Predict whether the writer of a food review gave five stars, from the text and the product.",
        "text",
        "area under the ROC curve (higher is better)",
        3473,
        (),
        _split("product,review"),
        "great",
        ("id", "great"),
        "chance",
        texts=("review",),
    ),
    Brief(
        "grants",
        "Predict whether a grant application of 2008 succeeds, from the applications of earlier years.",
        "tabular",
        "area under the ROC curve (higher is better)",
        6445,
        _split("num_ci,num_dr,num_ea,num_eci,num_hv,num_ps,num_sr,num_sci,...,grant_cat_50a,grant_cat_unk,day"),
        _split("sponsor_code,contract_value_band,category_code,month,weekday"),
        "successful",
        ("id", "successful"),
        "chance",
        width=1497,
    ),
    Brief(
        "hotel-rates",
        "Predict the average daily rate of a hotel booking from what the hotel knows about it.",
        "tabular",
        "mean absolute error (lower is better)",
        10326,
        _split(
            "lead_time,stays_in_weekend_nights,stays_in_week_nights,adults,children,babies,is_repeated_guest,"
            "previous_cancellations,...,near_christmas,near_new_years,historical_adr"
        ),
        _split(
            "meal,country,market_segment,distribution_channel,reserved_room_type,assigned_room_type,agent,company,"
            "customer_type,arrival_date"
        ),
        "avg_price_per_room",
        ("id", "avg_price_per_room"),
        "number",
        dates=("arrival_date",),
        gaps=("country",),
        width=17,
    ),
    Brief(
        "kjv-section",
        "Give the probability that a verse stands in each of six sections of the Bible.",
        "text",
        "multi-class logarithmic loss (lower is better)",
        27681,
        (),
        ("text",),
        "section",
        _split("id,gospels,history,law,letters,poetry,prophets"),
        "chances",
        texts=("text",),
        classes=6,
    ),
    Brief(
        "leaf-flavia",
        "Give the probability of each of 32 plant species from measures of one leaf.",
        "tabular",
        "multi-class logarithmic loss (lower is better)",
        1430,
        _split(
            "outlying_polar,skewed_polar,clumpy_polar,sparse_polar,striated_polar,convex_polar,skinny_polar,"
            "stringy_polar,...,std_green_val,std_blue_val,correlation"
        ),
        _split("apex,base,shape,denate_edge,lobed_edge,smooth_edge,toothed_edge,undulate_edge"),
        "species",
        _split(
            "id,anhui_barberry,beale_s_barberry,big_fruited_holly,camphortree,canadian_poplar,castor_aralia,"
            "chinese_cinnamon,...,true_indigo,wintersweet,yew_plum_pine"
        ),
        "chances",
        width=50,
        classes=32,
    ),
    Brief(
        "mnist-5k",
        "Say which digit a picture of 28 x 28 pixels shows.",
        "image",
        "accuracy (higher is better)",
        4000,
        _split("p0,p1,p2,p3,p4,p5,p6,p7,...,p781,p782,p783"),
        (),
        "digit",
        ("id", "digit"),
        "label",
        width=784,
        classes=10,
    ),
    Brief(
        "seattle-pets",
        "Predict whether a licensed pet is a cat or a dog from its name, postal code and date of licence.",
        "text",
        "area under the ROC curve (higher is better)",
        40212,
        (),
        _split("animal_name,zip_code,license_issue_date"),
        "cat",
        ("id", "cat"),
        "chance",
        texts=("animal_name",),
        dates=("license_issue_date",),
        gaps=("animal_name", "zip_code"),
    ),
)


def briefs(held_out: tuple[str, ...] = HELD_OUT) -> tuple[Brief, ...]:
    """The shipped tasks that the corpus may be about."""
    return tuple(brief for brief in BRIEFS if brief.task not in held_out)
