"""The tasks that come with the package, as their compact prompts tell them. A test compares them with the real ones."""

from __future__ import annotations

from rewardrate.pretraining.corpus.brief import Brief

HELD_OUT = ("elec-demand", "food-reviews", "hotel-rates", "mnist-5k")
"One of each modality: no example of the corpus is about them."


def _split(names: str) -> tuple[str, ...]:
    return tuple(names.split(","))


BRIEFS = (
    Brief(
        task="chicago-ridership",
        goal="Forecast the riders who enter a Chicago station on a day from the riders two weeks before, "
        "the weather and sports events.",
        kind="series",
        metric="mean absolute error in thousands of riders (lower is better)",
        rows=4242,
        numbers=_split(
            "Austin,Quincy_Wells,Belmont,Archer_35th,Oak_Park,Western,Clark_Lake,Clinton,...,"
            "WhiteSox_Home,Cubs_Away,Cubs_Home"
        ),
        words=("date",),
        target="ridership",
        submission=("id", "ridership"),
        answer="number",
        dates=("date",),
        width=48,
    ),
    Brief(
        task="diamonds",
        goal="Predict the price of a round-cut diamond in US dollars from its weight, grades and measures.",
        kind="tabular",
        metric="root mean squared logarithmic error (lower is better)",
        rows=43595,
        numbers=_split("carat,depth,table,x,y,z"),
        words=_split("cut,color,clarity"),
        target="price",
        submission=("id", "price"),
        answer="number",
    ),
    Brief(
        task="digits8x8",
        goal="Say which digit a picture of 8 x 8 pixels shows.",
        kind="image",
        metric="accuracy (higher is better)",
        rows=1257,
        numbers=_split("p0,p1,p2,p3,p4,p5,p6,p7,...,p61,p62,p63"),
        words=(),
        target="digit",
        submission=("id", "digit"),
        answer="label",
        width=64,
        classes=10,
    ),
    Brief(
        task="elec-demand",
        goal="Forecast the electricity demand of each half-hour of the last eight weeks of 2014 from calendar and "
        "temperature.",
        kind="series",
        metric="root mean squared error in gigawatts (lower is better)",
        rows=14832,
        numbers=_split("workday,temperature"),
        words=("time",),
        target="demand",
        submission=("id", "demand"),
        answer="number",
        dates=("time",),
    ),
    Brief(
        task="flights-delay",
        goal="Predict the arrival delay of a flight in minutes from what is known when it takes off.",
        kind="tabular",
        metric="root mean squared error in minutes (lower is better)",
        rows=295346,
        numbers=_split("month,day,sched_dep_time,dep_time,dep_delay,sched_arr_time,flight,distance"),
        words=_split("carrier,tailnum,origin,dest"),
        target="arr_delay",
        submission=("id", "arr_delay"),
        answer="number",
    ),
    Brief(
        task="food-reviews",
        goal="Predict whether the writer of a food review gave five stars, from the text and the product.",
        kind="text",
        metric="area under the ROC curve (higher is better)",
        rows=3473,
        numbers=(),
        words=_split("product,review"),
        target="great",
        submission=("id", "great"),
        answer="chance",
        texts=("review",),
    ),
    Brief(
        task="grants",
        goal="Predict whether a grant application of 2008 succeeds, from the applications of earlier years.",
        kind="tabular",
        metric="area under the ROC curve (higher is better)",
        rows=6445,
        numbers=_split("num_ci,num_dr,num_ea,num_eci,num_hv,num_ps,num_sr,num_sci,...,grant_cat_50a,grant_cat_unk,day"),
        words=_split("sponsor_code,contract_value_band,category_code,month,weekday"),
        target="successful",
        submission=("id", "successful"),
        answer="chance",
        width=1497,
    ),
    Brief(
        task="hotel-rates",
        goal="Predict the average daily rate of a hotel booking from what the hotel knows about it.",
        kind="tabular",
        metric="mean absolute error (lower is better)",
        rows=10326,
        numbers=_split(
            "lead_time,stays_in_weekend_nights,stays_in_week_nights,adults,children,babies,is_repeated_guest,"
            "previous_cancellations,...,near_christmas,near_new_years,historical_adr"
        ),
        words=_split(
            "meal,country,market_segment,distribution_channel,reserved_room_type,assigned_room_type,agent,company,"
            "customer_type,arrival_date"
        ),
        target="avg_price_per_room",
        submission=("id", "avg_price_per_room"),
        answer="number",
        dates=("arrival_date",),
        gaps=("country",),
        width=17,
    ),
    Brief(
        task="kjv-section",
        goal="Give the probability that a verse stands in each of six sections of the Bible.",
        kind="text",
        metric="multi-class logarithmic loss (lower is better)",
        rows=27681,
        numbers=(),
        words=("text",),
        target="section",
        submission=_split("id,gospels,history,law,letters,poetry,prophets"),
        answer="chances",
        texts=("text",),
        classes=6,
    ),
    Brief(
        task="leaf-flavia",
        goal="Give the probability of each of 32 plant species from measures of one leaf.",
        kind="tabular",
        metric="multi-class logarithmic loss (lower is better)",
        rows=1430,
        numbers=_split(
            "outlying_polar,skewed_polar,clumpy_polar,sparse_polar,striated_polar,convex_polar,skinny_polar,"
            "stringy_polar,...,std_green_val,std_blue_val,correlation"
        ),
        words=_split("apex,base,shape,denate_edge,lobed_edge,smooth_edge,toothed_edge,undulate_edge"),
        target="species",
        submission=_split(
            "id,anhui_barberry,beale_s_barberry,big_fruited_holly,camphortree,canadian_poplar,castor_aralia,"
            "chinese_cinnamon,...,true_indigo,wintersweet,yew_plum_pine"
        ),
        answer="chances",
        width=50,
        classes=32,
    ),
    Brief(
        task="mnist-5k",
        goal="Say which digit a picture of 28 x 28 pixels shows.",
        kind="image",
        metric="accuracy (higher is better)",
        rows=4000,
        numbers=_split("p0,p1,p2,p3,p4,p5,p6,p7,...,p781,p782,p783"),
        words=(),
        target="digit",
        submission=("id", "digit"),
        answer="label",
        width=784,
        classes=10,
    ),
    Brief(
        task="seattle-pets",
        goal="Predict whether a licensed pet is a cat or a dog from its name, postal code and date of licence.",
        kind="text",
        metric="area under the ROC curve (higher is better)",
        rows=40212,
        numbers=(),
        words=_split("animal_name,zip_code,license_issue_date"),
        target="cat",
        submission=("id", "cat"),
        answer="chance",
        texts=("animal_name",),
        dates=("license_issue_date",),
        gaps=("animal_name", "zip_code"),
    ),
)


def briefs(held_out: tuple[str, ...] = HELD_OUT) -> tuple[Brief, ...]:
    """The shipped tasks that the corpus may be about."""
    return tuple(brief for brief in BRIEFS if brief.task not in held_out)
